package convert

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/eventlog/state"
)

// ChunkRuns returns the map of a job's chunks.
func ChunkRuns(m state.ChunkMap) api.ChunkRuns {
	out := api.ChunkRuns{Step: m.Step, Runs: make([]api.ChunkRun, 0, len(m.Runs))}
	for _, r := range m.Runs {
		out.Chunks += r.Count
		out.Runs = append(out.Runs, api.ChunkRun{State: r.State, Count: r.Count})
	}
	return out
}
