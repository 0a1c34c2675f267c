package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// groupsRetry is the longest pause between attempts to hand groups to the holder.
const groupsRetry = 30 * time.Second

// groupsFile takes the groups of jobs.groups_file into the log, at the start and
// whenever the configuration is read again. Groups that the file does not name
// stay as they are.
type groupsFile struct {
	name   func() string // of the file, as configured now; empty: none
	groups *groups
	url    *groupsync.Sync // of jobs.groups_url
	logger zerolog.Logger
	// again has capacity 1; if it is full the file will be read again anyway.
	again chan struct{}
}

func newGroupsFile(name func() string, set *groups, logger zerolog.Logger) *groupsFile {
	g := &groupsFile{name: name, groups: set, logger: logger, again: make(chan struct{}, 1)}
	g.wake()
	return g
}

func (g *groupsFile) wake() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

// ReadGroups reads a file of groups; an empty name means that there is none.
func ReadGroups(name string) ([]event.GroupSet, error) {
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

// run takes the file into the log each time that it is woken, until ctx ends.
func (g *groupsFile) run(ctx context.Context) error {
	pause := time.Second
	retry := time.NewTimer(0)
	defer retry.Stop()
	retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.again:
			pause = time.Second
		case <-retry.C:
			pause = min(2*pause, groupsRetry)
		}
		name := g.name()
		sets, err := ReadGroups(name)
		if err != nil {
			g.logger.Error().Err(err).Msg("groups file refused: groups left as they are")
			continue
		}
		if err := g.set(ctx, sets); err != nil && ctx.Err() == nil {
			g.logger.Warn().Err(err).Msg("groups of the file not set yet")
			if p, ok := errors.AsType[*api.Problem](err); !ok || p.Retryable() || p.Code == api.CodeTimeout {
				retry.Reset(pause)
			}
		}
	}
}

// set hands the groups that differ from those in the log to the holder.
func (g *groupsFile) set(ctx context.Context, sets []event.GroupSet) error {
	changed := 0
	for _, b := range sets {
		var have state.Group
		g.groups.log.View(func(s *state.State) { have, _ = s.Group(b.Group) })
		if slices.Equal(have.Members, b.Members) {
			continue
		}
		if _, err := forward.AskHolder(ctx, g.groups.remote, forward.Group, at("config", g.groups.self), b); err != nil {
			return fmt.Errorf("group %s: %w", b.Group, err)
		}
		changed++
	}
	if changed > 0 {
		g.logger.Info().Int("groups", changed).Msg("groups set from the file")
	}
	return nil
}
