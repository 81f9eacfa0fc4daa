-- Conversations and packages of the pipeline, each with its owner.

-- name: select_response
-- Returns an owner's answer.
-- Parameters: owner, response_id.
SELECT response_id, conversation_id, mode, provider, model, claims_sha256, provider_response_id, starting_prompt,
       question, answer, package_id
  FROM retrieval.responses WHERE owner = %(owner)s AND response_id = %(response_id)s

-- name: select_turns
-- Returns the latest answers of a conversation, in their order: the columns of select_response, then the sequence
-- number.
-- Parameters: owner, conversation_id, limit.
SELECT * FROM (
  SELECT response_id, conversation_id, mode, provider, model, claims_sha256, provider_response_id, starting_prompt,
         question, answer, package_id, sequence
    FROM retrieval.responses WHERE owner = %(owner)s AND conversation_id = %(conversation_id)s
   ORDER BY sequence DESC LIMIT %(limit)s) AS latest
 ORDER BY sequence

-- name: insert_response
-- Adds an answer; a job that runs again (at-least-once delivery) finds its existing one.
-- Parameters: owner and the columns of select_response.
INSERT INTO retrieval.responses
       (owner, response_id, conversation_id, mode, provider, model, claims_sha256, provider_response_id,
        starting_prompt, question, answer, package_id)
VALUES (%(owner)s, %(response_id)s, %(conversation_id)s, %(mode)s, %(provider)s, %(model)s, %(claims_sha256)s,
        %(provider_response_id)s, %(starting_prompt)s, %(question)s, %(answer)s, %(package_id)s)
ON CONFLICT DO NOTHING

-- name: insert_package
-- Adds a package; an existing one stays.
-- Parameters: owner and the columns of select_package.
INSERT INTO retrieval.packages (owner, package_id, stage, content, claims_sha256)
VALUES (%(owner)s, %(package_id)s, %(stage)s, %(content)s, %(claims_sha256)s)
ON CONFLICT DO NOTHING

-- name: select_package
-- Returns an owner's package.
-- Parameters: owner, package_id.
SELECT package_id, stage, content, claims_sha256 FROM retrieval.packages
 WHERE owner = %(owner)s AND package_id = %(package_id)s
