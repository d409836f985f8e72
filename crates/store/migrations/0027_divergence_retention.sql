-- Divergences that ended are deleted after a time: a service that flaps adds one each time.
grant delete on divergences to trueup_worker;
create index divergences_ended on divergences (ended_at) where ended_at is not null and gone_at is not null;
