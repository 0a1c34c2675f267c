//go:build race

package mesh

// raceEnabled: devices cost several times as much.
const raceEnabled = true
