package facebench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
)

// appended is an event and when the call that brought it about began.
type appended struct {
	key string // as the page names it
	at  time.Time
}

// Append is how long an event takes from the holder of three daemons to who follows at
// another one: a watch, and the page of `skein ui` in Chromium. The event is that a group
// was set; the time begins with the call that asks for it.
func Append(ctx context.Context, s *suite.Suite) (err error) {
	ds, err := testbed.NewDaemons(ctx, s, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	s.Progress("three daemons run")
	var at map[string]time.Time // when a watch was told
	var list []appended
	pageName := "an event, from the append to the page of another host, p99"
	shown, err := withPage(ctx, s, ds, func() error {
		var err error
		list, at, err = followed(ctx, s, ds)
		return err
	})
	if err != nil {
		return err
	}
	follower := suite.Series{Name: "an event, from the append to a watch of another host, p99", Unit: "ms", Target: suite.Want("ours", "<=", 250), Digest: suite.P99}
	onPage := suite.Series{Name: pageName, Unit: "ms", Target: suite.Want("ours", "<=", 250), Digest: suite.P99}
	for _, e := range list {
		follower.Ours = append(follower.Ours, suite.Ms(at[e.key].Sub(e.at)))
		if shown == nil {
			continue
		}
		ms := shown["#/events/"+e.key]
		if ms == 0 {
			return fmt.Errorf("the page did not show event %s", e.key)
		}
		onPage.Ours = append(onPage.Ours, ms-float64(e.at.UnixMicro())/1000)
	}
	s.Add(follower)
	if shown == nil {
		s.Skip(pageName, "no Chromium, which scripts/deps installs")
		return nil
	}
	s.Add(onPage)
	return nil
}

// followed sets groups at the holder, one after the other, while a watch of another host
// is told.
func followed(ctx context.Context, s *suite.Suite, ds *testbed.Daemons) (list []appended, at map[string]time.Time, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type told struct {
		key, group string
		at         time.Time
	}
	heard, ended := make(chan told, s.Size.Appends), make(chan error, 1)
	synced := make(chan struct{}, 1)
	q := api.WatchQuery{Topics: []string{"events"}}
	go func() {
		ended <- ds.Hosts[1].API.Watch(ctx, q, api.FollowOptions{Retry: func(err error) error { return err }}, func(m api.WatchMessage) error {
			now := time.Now()
			if m.Event == "synced" {
				synced <- struct{}{}
			}
			if m.Event != "log" {
				return nil
			}
			var d struct{ Events []api.Event }
			if err := json.Unmarshal(m.Data, &d); err != nil {
				return err
			}
			for _, e := range d.Events {
				var b struct{ Group string }
				if e.Kind == "group_set" && json.Unmarshal(e.Body, &b) == nil {
					heard <- told{fmt.Sprintf("%s/%d/%d", e.Source.Node, e.Source.Inc, e.Seq), b.Group, now}
				}
			}
			return nil
		})
	}()
	select {
	case <-synced:
	case err := <-ended:
		return nil, nil, err
	}
	at = map[string]time.Time{}
	for i := range s.Size.Appends {
		if err := suite.Phase(ctx); err != nil {
			return nil, nil, err
		}
		group, began := fmt.Sprintf("group-%d", i), time.Now()
		if _, err := ds.Hosts[0].API.SetGroup(ctx, group, nil); err != nil {
			return nil, nil, err
		}
		select {
		case e := <-heard:
			if e.group != group {
				return nil, nil, fmt.Errorf("the watch told of %q, not of %q", e.group, group)
			}
			at[e.key] = e.at
			list = append(list, appended{e.key, began})
		case err := <-ended:
			return nil, nil, err
		case <-time.After(30 * time.Second):
			return nil, nil, fmt.Errorf("the watch did not tell of %q", group)
		}
	}
	return list, at, nil
}

// withPage has the page of a host in Chromium while f runs, and returns when it showed
// each event, in milliseconds since 1970; nil: there is no Chromium.
func withPage(ctx context.Context, s *suite.Suite, ds *testbed.Daemons, f func() error) (shown map[string]float64, err error) {
	exe, err := measure(ctx, s)
	if err != nil {
		return nil, err
	}
	ui := exec.CommandContext(ctx, ds.Exe, "--socket", ds.Hosts[1].Socket(), "ui")
	ui.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := ui.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := ui.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = ui.Process.Kill() // it may have ended
		_ = ui.Wait()         // it was killed
	}()
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("skein ui: %w", err)
	}
	var said strings.Builder
	page := exec.CommandContext(ctx, exe, "follow", strings.TrimSpace(link))
	page.Stderr = &said
	in, err := page.StdinPipe()
	if err != nil {
		return nil, err
	}
	if out, err = page.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := page.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // it follows
		_ = in.Close()
		err = page.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == noBrowser {
			return nil, f()
		}
		return nil, fmt.Errorf("the page does not follow: %w: %s", err, said.String())
	}
	s.Progress("the page follows")
	failed := f()
	if failed == nil {
		failed = suite.Pause(ctx, 3*time.Second) // what is late is shown as well
	}
	text, err := func() (string, error) {
		if err := in.Close(); err != nil {
			return "", err
		}
		return lines.ReadString('\n')
	}()
	if err := errors.Join(failed, err, page.Wait()); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	err = json.Unmarshal([]byte(text), &shown)
	return shown, err
}
