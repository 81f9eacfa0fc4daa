"""Pages of the inspector in a browser.

Read `app` first: the routes and what stands around them. `pages` answers, `visits` says who visits.
"""
