-- Tables and columns take the names that the API and the code use (docs/adr/0041). No row changes but for
-- the result of DNS checks that were not conclusive.

alter table repeats rename to idempotency_keys;
alter table idempotency_keys rename constraint repeats_key to idempotency_keys_key;
alter index repeats_by_age rename to idempotency_keys_by_age;

alter table plan_requests rename to preview_requests;
alter table preview_requests rename column plan to preview;
alter index plan_requests_open rename to preview_requests_open;
alter index plan_requests_old rename to preview_requests_old;
alter index plan_requests_of_org rename to preview_requests_of_org;

alter table domains rename column asked_at to check_requested_at;
alter table domains rename column looks to checks;
alter table domains rename column look_at to next_check_at;
alter table domains rename column tried_at to check_started_at;
alter table domains rename column looked_at to checked_at;
alter table domains rename column saw to check_result;
alter table domains rename column saw_why to check_detail;
alter table domains drop constraint domains_saw_check;
update domains set check_result = 'indeterminate' where check_result = 'doubt';
alter table domains add constraint domains_check_result
    check (check_result in ('nothing', 'other_texts', 'indeterminate'));
