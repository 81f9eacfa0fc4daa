-- Replication to a standby.

-- name: lag
-- Returns an upper bound of the standby's replication lag in seconds; NULL where it is unknown. It is unknown for a
-- server that is no standby: it may have been promoted while its primary is still running. It is zero where all
-- received WAL is replayed and the stream is connected: the last commit of an idle primary is old, but nothing is
-- missing. A silent stream counts as connected for wal_receiver_timeout.
SELECT (CASE WHEN NOT pg_is_in_recovery() THEN NULL
             WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
             THEN 0
             ELSE greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()))
        END)::float8
