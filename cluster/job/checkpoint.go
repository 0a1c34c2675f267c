package job

import (
	"fmt"
	"slices"
	"time"
)

const (
	// CheckpointName is the file in which an attempt leaves how far it is, among its
	// outputs, and in which the next one finds it, among its files.
	CheckpointName = ".checkpoint"
	// MaxCheckpointBytes bounds that file.
	MaxCheckpointBytes = 64 << 20
	// CheckpointEvery is the shortest time between two checkpoints of an attempt.
	CheckpointEvery = 30 * time.Second
)

// Checkpoint is how far an attempt was: the file that it left, and how many iterations
// were done by then, as it told.
type Checkpoint struct {
	File
	Done uint64 `json:"done"` // iterations
}

// Check reports why c cannot be one.
func (c Checkpoint) Check() error {
	if c.Hash.IsZero() || c.Size < 0 || c.Size > MaxCheckpointBytes {
		return fmt.Errorf("checkpoint of %d bytes, at most %d are allowed, or without a hash", c.Size, MaxCheckpointBytes)
	}
	return nil
}

// checkCheckpoint reports a name that a job with checkpoints cannot use.
func (p Policy) checkCheckpoint() error {
	if _, in := p.Files[CheckpointName]; p.Checkpoint && (in || slices.Contains(p.Outputs, CheckpointName)) {
		return fmt.Errorf("%s is among the files or outputs, and is where checkpoints are", CheckpointName)
	}
	return nil
}
