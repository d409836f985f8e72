-- Who ended the deletion of a project without proof, and why. The receipt says what was not proved.
alter table projects add column force jsonb;
grant update (force) on projects to trueup_app;
