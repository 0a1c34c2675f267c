package config

// Postgres is [postgres]: the database of which this host is the holder's side while it
// holds.
type Postgres struct {
	// DSNFile holds how to connect; empty: there is no database.
	DSNFile string
	// Intake takes jobs from its table, Sink puts there how jobs ended.
	Intake, Sink bool
	// Chunks has the sink write the result of each chunk as well.
	Chunks bool
}

func postgresKeys() []key {
	return []key{
		stringKey("postgres.dsn_file", func(c *Fixed) *string { return &c.Postgres.DSNFile }, optionalPath,
			"File with one line that says how to connect to a PostgreSQL database, as libpq understands it:",
			"docs/scale-out.md. Every host that may hold the lease needs it; only the holder connects.",
			"Empty: there is no database."),
		boolKey("postgres.intake", func(c *Fixed) *bool { return &c.Postgres.Intake },
			"Submit the jobs that others write into its table skein.jobs. Who may write there decides",
			"for whom jobs are: they are submitted for the user whom the row names."),
		boolKey("postgres.sink", func(c *Fixed) *bool { return &c.Postgres.Sink },
			"Write into that table how every job ended, whoever submitted it."),
		boolKey("postgres.chunks", func(c *Fixed) *bool { return &c.Postgres.Chunks },
			"Write the result of each chunk as well, into skein.chunk_results, before its job ends there:",
			"a row for each, which may be a million of one job. Needs postgres.sink."),
	}
}

// checkPostgres looks at the keys of [postgres] together.
func (c *Config) checkPostgres() *Error {
	p := c.Postgres
	if p.DSNFile == "" && (p.Intake || p.Sink) {
		return &Error{Key: "postgres.dsn_file", Msg: "there is no database to take jobs from, or to put ends into", Hint: "set postgres.dsn_file"}
	}
	if p.DSNFile != "" && !p.Intake && !p.Sink {
		return &Error{Key: "postgres.dsn_file", Msg: "nothing is to be done with the database", Hint: "set postgres.intake, postgres.sink or both to true"}
	}
	if p.Chunks && !p.Sink {
		return &Error{Key: "postgres.chunks", Msg: "results of chunks are written when a job's end is, which is not written", Hint: "set postgres.sink to true as well"}
	}
	return nil
}
