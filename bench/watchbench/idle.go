package watchbench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
)

// many is how many hosts a large cluster has.
const many = 500

// Idle counts what a watch of everything is told of a cluster in which nothing happens: of
// three daemons, and of 500 hosts that are made up.
func Idle(ctx context.Context, s *suite.Suite) (err error) {
	ds, err := testbed.NewDaemons(ctx, s, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	s.Progress("three daemons run")
	if err := suite.Pause(ctx, s.Size.Window); err != nil { // the start has its events
		return err
	}
	if err := idle(ctx, s, ds.Hosts[1].Socket(), "a watch of all of 3 idle daemons", 0.5); err != nil {
		return err
	}
	made, err := Serve(ctx, many, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.Close()) }()
	return idle(ctx, s, made.Socket, fmt.Sprintf("a watch of all of %d idle hosts", many), 10)
}

// idle adds the row of one watch.
func idle(ctx context.Context, s *suite.Suite, socket, name string, most float64) (err error) {
	row := suite.Series{Name: name, Unit: "kB/s", Target: suite.Want("ours", "<=", most), Digest: suite.Median}
	a := newAsking(ctx, socket)
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.watch("status,members,links,lease,terms,workers,jobs,onion,events"); err != nil {
		return err
	}
	if err := suite.Pause(ctx, s.Size.Window); err != nil {
		return err
	}
	for i := range s.Size.Rounds {
		s.Progress("%s, window %d of %d", name, i+1, s.Size.Rounds)
		before, began := a.bytes.Load(), time.Now()
		if err := suite.Pause(ctx, s.Size.Window); err != nil {
			return err
		}
		row.Ours = append(row.Ours, float64(a.bytes.Load()-before)/1000/time.Since(began).Seconds())
	}
	s.Add(row)
	return nil
}

// Followers compares watchers of a large cluster with clients that ask for the same views
// once a second: what they are sent, and what this process, the server and its clients,
// computes for it. Once a second a host is suspect and another is no longer; everything
// gets older meanwhile.
func Followers(ctx context.Context, s *suite.Suite) (err error) {
	n := s.Size.Followers
	made, err := Serve(ctx, many, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.Close()) }()
	run, stop := context.WithCancel(ctx)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for i := 1; suite.Pause(run, time.Second) == nil; i++ {
			made.Change(i)
		}
	}()
	defer func() { stop(); <-changed }()
	const with = "each client asks for the same views once a second, over a connection that stays"
	bytes := suite.Series{Name: fmt.Sprintf("bytes to %d watchers of %d hosts", n, many), Unit: "kB/s", With: with, Target: suite.Want("ratio", "<=", 0.1), Digest: suite.Median}
	cpu := suite.Series{Name: fmt.Sprintf("processor time for %d watchers of %d hosts", n, many), Unit: "ms/s", With: with, Target: suite.Want("ratio", "<=", 0.2), Digest: suite.Median}
	paths := []string{"/v1/status", "/v1/members", "/v1/lease", "/v1/lease/history", "/v1/workers", "/v1/jobs", "/v1/onion"}
	phase := func(begin func(a *asking) error, kBs, ms *float64) func() error {
		return func() (err error) {
			a := newAsking(ctx, made.Socket)
			defer func() { err = errors.Join(err, a.close()) }()
			if err := begin(a); err != nil {
				return err
			}
			if err := suite.Pause(ctx, time.Second); err != nil {
				return err
			}
			before, used, began := a.bytes.Load(), computed(), time.Now()
			if err := suite.Pause(ctx, s.Size.Window); err != nil {
				return err
			}
			took := time.Since(began).Seconds()
			*kBs, *ms = float64(a.bytes.Load()-before)/1000/took, suite.Ms(computed()-used)/took
			return nil
		}
	}
	var looks atomic.Int64
	for i := range s.Size.Rounds {
		var b, p, cb, cp float64
		err := suite.InTurn(i, phase(func(a *asking) error {
			for range n {
				if err := a.watch("status,members,lease,terms,workers,jobs,onion"); err != nil {
					return err
				}
			}
			return nil
		}, &b, &cb), phase(func(a *asking) error {
			for range n {
				if err := a.poll(paths, &looks); err != nil {
					return err
				}
			}
			return nil
		}, &p, &cp))
		if err != nil {
			return err
		}
		s.Progress("round %d of %d: %.1f and %.1f kB/s, %.0f and %.0f ms of processor time a second", i+1, s.Size.Rounds, b, p, cb, cp)
		bytes.Ours, bytes.Peer = append(bytes.Ours, b), append(bytes.Peer, p)
		cpu.Ours, cpu.Peer = append(cpu.Ours, cb), append(cpu.Peer, cp)
	}
	if looks.Load() == 0 {
		return errors.New("nobody polled")
	}
	s.Add(bytes)
	s.Add(cpu)
	return nil
}

// computed is for how long this process has computed.
func computed() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("bench: getrusage: " + err.Error())
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}
