package groupsync

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
)

// fileRetry is the longest pause between attempts to hand the groups of the file on.
const fileRetry = 30 * time.Second

// Reload has jobs.groups_file read again.
func (g *Sync) Reload() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

// ReadFile reads a file of groups; an empty name means that there is none.
func ReadFile(name string) ([]event.GroupSet, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("jobs.groups_file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, config.MaxGroupsFile+1))
	if err != nil {
		return nil, fmt.Errorf("jobs.groups_file: %w", err)
	}
	sets, err := config.ParseGroups(text)
	if err != nil {
		return nil, fmt.Errorf("jobs.groups_file %s: %w", name, err)
	}
	return sets, nil
}

// runFile takes the file into the log at the start and whenever the configuration is
// read again, until ctx ends.
func (g *Sync) runFile(ctx context.Context) {
	pause := time.Second
	retry := time.NewTimer(0) // at once
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.again:
			pause = time.Second
		case <-retry.C:
			pause = min(2*pause, fileRetry)
		}
		sets, err := ReadFile(g.o.File())
		if err != nil {
			g.o.Logger.Error().Err(err).Msg("groups file refused: groups left as they are")
			continue
		}
		if again, err := g.take(ctx, "jobs.groups_file", sets); err != nil && ctx.Err() == nil {
			g.o.Logger.Warn().Err(err).Msg("groups of the file not set yet")
			if again {
				retry.Reset(pause)
			}
		}
	}
}
