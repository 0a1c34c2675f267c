package memberbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
)

const peerMembers = "hashicorp/memberlist v0.7.0, DefaultLANConfig"

// Membership compares detection, traffic and false alarms of two clusters that
// run side by side. Their hosts are services of one process on loopback
// sockets.
func Membership(ctx context.Context, s *suite.Suite) error {
	s.Progress("starting %d hosts of each", s.Size.Hosts)
	ours, err := newFleet(ctx, s.Size.Hosts, cluster.ProfileLAN)
	if err != nil {
		return err
	}
	defer ours.close()
	s.Progress("skein's hosts see each other")
	peer, err := newGossip(ctx, s.Size.Hosts)
	if err != nil {
		return err
	}
	defer func() { _ = peer.close() }()
	s.Progress("memberlist's nodes see each other")
	if err := ours.calm(ctx); err != nil {
		return err
	}
	hosts := fmt.Sprintf(", %d hosts, lan", s.Size.Hosts)
	row := func(name, unit string, t suite.Target, digest func([]float64) float64) suite.Series {
		return suite.Series{Name: name + hosts, Unit: unit, With: peerMembers, Target: t, Digest: digest}
	}
	traffic := row("idle membership traffic per host", "B/s", suite.Want("ours", "<=", 1000), suite.Median)
	if err := idle(ctx, &traffic, s, ours, peer); err != nil {
		return err
	}
	s.Add(traffic)
	detection := row("detection of a dead host by all others", "ms", suite.Want("ratio", "<=", 0.8), suite.Median)
	for i := range s.Size.Kills {
		if err := suite.InTurn(i, func() error { return killOurs(ctx, &detection, ours) }, func() error { return killPeer(ctx, &detection, peer) }); err != nil {
			return err
		}
		s.Progress("kill %d of %d: %.0f and %.0f ms", i+1, s.Size.Kills, detection.Ours[i], detection.Peer[i])
	}
	s.Add(detection)
	alarms := row("living hosts taken out at 10 % loss", "cases", suite.Want("ours", "<=", 0), suite.Median)
	if err := lossy(ctx, &alarms, s, ours, peer); err != nil {
		return err
	}
	s.Add(alarms)
	return nil
}

// idle measures both at once: they do not share anything but the machine.
func idle(ctx context.Context, r *suite.Series, s *suite.Suite, ours *fleet, peer *gossip) error {
	for i := range s.Size.Rounds {
		began, a, b := time.Now(), ours.c.M.Bytes(), peer.m.Bytes()
		if err := suite.Pause(ctx, s.Size.Window); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		r.Ours = append(r.Ours, float64(ours.c.M.Bytes()-a)/took/float64(len(ours.up)))
		r.Peer = append(r.Peer, float64(peer.m.Bytes()-b)/took/float64(len(peer.nodes)))
		s.Progress("idle traffic, round %d of %d: %.0f and %.0f B/s per host", i+1, s.Size.Rounds, r.Ours[i], r.Peer[i])
	}
	return nil
}

// detectionLimit is when a detection counts as failed.
const detectionLimit = 2 * time.Minute

func killOurs(ctx context.Context, r *suite.Series, f *fleet) error {
	if err := errors.Join(suite.Poll(ctx, "skein is complete before a kill", detectionLimit, f.complete), suite.Phase(ctx)); err != nil {
		return fmt.Errorf("%w: %s", err, f.census())
	}
	f.gone.clear()
	began := time.Now()
	victim, wait, err := f.crash()
	if err != nil {
		return err
	}
	at, err := f.gone.await(ctx, string(victim), len(f.up))
	if err != nil {
		return fmt.Errorf("skein: %w", err)
	}
	r.Ours = append(r.Ours, suite.Ms(at.Sub(began)))
	wait()
	return nil
}

func killPeer(ctx context.Context, r *suite.Series, g *gossip) error {
	if err := errors.Join(suite.Poll(ctx, "memberlist is complete before a kill", detectionLimit, g.complete), suite.Phase(ctx)); err != nil {
		return err
	}
	g.gone.clear()
	began := time.Now()
	victim, err := g.crash()
	if err != nil {
		return err
	}
	at, err := g.gone.await(ctx, victim, len(g.nodes))
	if err != nil {
		return fmt.Errorf("memberlist: %w", err)
	}
	r.Peer = append(r.Peer, suite.Ms(at.Sub(began)))
	return nil
}

// await returns when the last of n observers took victim out.
func (d *departures) await(ctx context.Context, victim string, n int) (time.Time, error) {
	var last time.Time
	err := suite.Poll(ctx, fmt.Sprintf("all %d others take %s out", n, victim), detectionLimit, func() (ok bool) {
		last, ok = d.all(victim, n)
		return ok
	})
	return last, err
}

// lossy lets both lose a tenth of their datagrams and counts who is taken out
// though it lives: each observer and victim is a case.
func lossy(ctx context.Context, r *suite.Series, s *suite.Suite, ours *fleet, peer *gossip) error {
	ours.gone.clear()
	peer.gone.clear()
	ours.c.M.Lose.Store(100)
	peer.m.Lose.Store(100)
	defer ours.c.M.Lose.Store(0)
	defer peer.m.Lose.Store(0)
	s.Progress("losing a tenth of all datagrams for %s", s.Size.Loss)
	if err := suite.Pause(ctx, s.Size.Loss); err != nil {
		return err
	}
	r.Ours = append(r.Ours, float64(ours.gone.total(ours.lives)))
	r.Peer = append(r.Peer, float64(peer.gone.total(peer.lives)))
	return nil
}
