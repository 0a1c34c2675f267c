-- The result of each chunk, as counted; written before its job's end.
create table skein.chunk_results (
	job         text not null,
	chunk       int not null,      -- from 0
	result      json not null,     -- as text: result_hash is of these bytes
	result_hash bytea not null,    -- SHA-256
	worker      text not null,
	attempt     int not null,      -- from 1
	seconds     float8 not null,   -- the worker's own measure
	accepted_at timestamptz not null,
	term        bigint not null,   -- of the holder that wrote it
	primary key (job, chunk)
);
