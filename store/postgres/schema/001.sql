-- Who may write: the holder of the highest term.
create table skein.fence (
	cluster   text primary key,
	term      bigint not null,
	holder    text not null,
	raised_at timestamptz not null default now()
);

-- A portal inserts (owner, idem_key, spec); all else is skein's.
create table skein.jobs (
	id          uuid primary key default gen_random_uuid(),
	owner       text not null check (octet_length(owner) between 1 and 128),
	idem_key    text not null check (octet_length(idem_key) between 1 and 128),
	spec        jsonb not null check (octet_length(spec::text) <= 65536),
	state       text not null default 'new'
		check (state in ('new', 'taken', 'rejected', 'completed', 'failed', 'cancelled')),
	job         text,             -- its id in skein
	result      json,             -- as text: result_hash is of these bytes
	result_hash bytea,            -- SHA-256
	error       text,
	term        bigint,           -- of the holder that wrote last
	created_at  timestamptz not null default now(),
	done_at     timestamptz,
	unique (owner, idem_key)
);
create index jobs_new on skein.jobs (created_at, id) where state = 'new';
create index jobs_job on skein.jobs (job);

-- A row for each metric of each job that has a result.
create view skein.metrics as
select j.id, j.job, j.owner, m.key as metric, (m.value->>'n')::numeric as n, (m.value->>'mean')::float8 as mean,
	case when (m.value->>'n')::numeric > 1
		then sqrt((m.value->>'m2')::float8 / ((m.value->>'n')::float8 - 1)) else 0 end as std,
	(m.value->>'min')::float8 as min, (m.value->>'max')::float8 as max
from skein.jobs j cross join lateral json_each(j.result->'metrics') m
where j.result is not null;

create function skein.wake() returns trigger language plpgsql as
$$ begin perform pg_notify('skein_jobs', ''); return null; end $$;
create trigger wake after insert on skein.jobs for each statement execute function skein.wake();
