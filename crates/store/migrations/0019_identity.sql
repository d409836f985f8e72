-- Which cluster it is, as the cluster itself says. None: nobody has asked it yet.
alter table clusters add column identity text;
grant update (identity) on clusters to trueup_worker;
