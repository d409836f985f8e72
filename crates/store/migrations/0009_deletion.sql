-- Deletion: who ended one by force, and what a living service no longer wants.

-- Who ended a deletion without proof, and why. The receipt says what was not proved.
alter table services add column force jsonb;

-- Since which generation a living unit does not want an object any more: only then may it be pruned.
alter table resources add column unwanted_since_generation bigint;
