// Package load is the vocabulary of load tests: what a scenario says (traffic
// drives a flow of steps with users), its templates, checks and extractions, and
// how a request can end (Class). A scenario is TOML; Parse names everything that is
// wrong with it, each fault with its line, and Compile makes of it what an engine
// runs without looking a name up again.
//
// Non-goals: sending anything, time, files: rows of data and secrets arrive as
// values.
//
// Goroutines: none.
//
//	scenario, err := load.Parse(text)
//	plan, err := scenario.Compile(load.Inputs{Env: os.LookupEnv})
package load
