-- The end of projects: who gave up its proof, and what was looked at before a namespace went.

alter table projects
    -- Who ended its deletion without proof, and why. The receipt says what was not proved.
    add column force  jsonb,
    -- The look into its namespace that found nothing of others: on record before the namespace is deleted.
    add column survey jsonb;

grant update (force) on projects to trueup_app;
grant update (survey) on projects to trueup_worker;
