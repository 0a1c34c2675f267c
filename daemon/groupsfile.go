package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
)

// groupsRetry is the longest pause between tries to hand groups to the holder.
const groupsRetry = 30 * time.Second

// groupsFile takes the groups of jobs.groups_file into the log, at the start and
// whenever the configuration is read again. Groups that the file does not name
// stay as they are.
type groupsFile struct {
	n *node
	// again has capacity 1; full: the file will be read again anyway.
	again chan struct{}
}

func newGroupsFile(n *node) *groupsFile {
	g := &groupsFile{n: n, again: make(chan struct{}, 1)}
	g.wake()
	return g
}

func (g *groupsFile) wake() {
	select {
	case g.again <- struct{}{}:
	default:
	}
}

// readGroups reads a file of groups; the empty name stands for none.
func readGroups(name string) ([]cluster.GroupSet, error) {
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

// run ends with ctx.
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
		name := g.n.conf().Jobs.GroupsFile
		sets, err := readGroups(name)
		if err != nil {
			g.n.log.Error().Err(err).Msg("groups not taken from the file: the old ones stay")
			continue
		}
		if err := g.set(ctx, sets); err != nil && ctx.Err() == nil {
			g.n.log.Warn().Err(err).Msg("groups of the file not set yet")
			if p, ok := errors.AsType[*api.Problem](err); !ok || p.Retryable() || p.Code == api.CodeTimeout {
				retry.Reset(pause)
			}
		}
	}
}

// set hands what the log does not say yet to the holder.
func (g *groupsFile) set(ctx context.Context, sets []cluster.GroupSet) error {
	changed := 0
	for _, b := range sets {
		var have state.Group
		g.n.events.View(func(s *state.State) { have, _ = s.Group(b.Group) })
		if slices.Equal(have.Members, b.Members) {
			continue
		}
		if _, err := g.n.toHolder(ctx, remoteRequest{Group: &b, Actor: g.n.at("config")}); err != nil {
			return fmt.Errorf("group %s: %w", b.Group, err)
		}
		changed++
	}
	if changed > 0 {
		g.n.log.Info().Int("groups", changed).Msg("groups set from the file")
	}
	return nil
}
