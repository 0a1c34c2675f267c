package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

const peerMembers = "hashicorp/memberlist v0.7.0, DefaultLANConfig"

// membership compares detection, traffic and false alarms of two clusters that
// run side by side. Their hosts are services of one process on loopback
// sockets.
func membership(ctx context.Context, s *suite) error {
	s.progress("starting %d hosts of each", s.size.hosts)
	ours, err := newFleet(ctx, s.size.hosts, cluster.ProfileLAN)
	if err != nil {
		return err
	}
	defer ours.close()
	s.progress("skein's hosts see each other")
	peer, err := newGossip(ctx, s.size.hosts)
	if err != nil {
		return err
	}
	defer func() { _ = peer.close() }()
	s.progress("memberlist's nodes see each other")
	if err := ours.calm(ctx); err != nil {
		return err
	}
	hosts := fmt.Sprintf(", %d hosts, lan", s.size.hosts)
	row := func(name, unit string, t target, digest func([]float64) float64) series {
		return series{name: name + hosts, unit: unit, with: peerMembers, target: t, digest: digest}
	}
	traffic := row("idle membership traffic per host", "B/s", target{"ours", "<=", 1000}, median)
	if err := traffic.idle(ctx, s, ours, peer); err != nil {
		return err
	}
	s.add(traffic)
	detection := row("detection of a dead host by all others", "ms", target{"ratio", "<=", 0.8}, median)
	for i := range s.size.kills {
		if err := inTurn(i, func() error { return detection.killOurs(ctx, ours) }, func() error { return detection.killPeer(ctx, peer) }); err != nil {
			return err
		}
		s.progress("kill %d of %d: %.0f and %.0f ms", i+1, s.size.kills, detection.ours[i], detection.peer[i])
	}
	s.add(detection)
	alarms := row("living hosts taken out at 10 % loss", "cases", target{"ours", "<=", 0}, median)
	if err := alarms.lossy(ctx, s, ours, peer); err != nil {
		return err
	}
	s.add(alarms)
	return nil
}

// idle measures both at once: they do not share anything but the machine.
func (r *series) idle(ctx context.Context, s *suite, ours *fleet, peer *gossip) error {
	for i := range s.size.rounds {
		began, a, b := time.Now(), ours.c.m.bytes(), peer.m.bytes()
		if err := pause(ctx, s.size.window); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		r.ours = append(r.ours, float64(ours.c.m.bytes()-a)/took/float64(len(ours.up)))
		r.peer = append(r.peer, float64(peer.m.bytes()-b)/took/float64(len(peer.nodes)))
		s.progress("idle traffic, round %d of %d: %.0f and %.0f B/s per host", i+1, s.size.rounds, r.ours[i], r.peer[i])
	}
	return nil
}

// detectionLimit is when a detection counts as failed.
const detectionLimit = 2 * time.Minute

func (r *series) killOurs(ctx context.Context, f *fleet) error {
	if err := errors.Join(poll(ctx, "skein is complete before a kill", detectionLimit, f.complete), phase(ctx)); err != nil {
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
	r.ours = append(r.ours, ms(at.Sub(began)))
	wait()
	return nil
}

func (r *series) killPeer(ctx context.Context, g *gossip) error {
	if err := errors.Join(poll(ctx, "memberlist is complete before a kill", detectionLimit, g.complete), phase(ctx)); err != nil {
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
	r.peer = append(r.peer, ms(at.Sub(began)))
	return nil
}

// await returns when the last of n observers took victim out.
func (d *departures) await(ctx context.Context, victim string, n int) (time.Time, error) {
	var last time.Time
	err := poll(ctx, fmt.Sprintf("all %d others take %s out", n, victim), detectionLimit, func() (ok bool) {
		last, ok = d.all(victim, n)
		return ok
	})
	return last, err
}

// lossy lets both lose a tenth of their datagrams and counts who is taken out
// though it lives: each observer and victim is a case.
func (r *series) lossy(ctx context.Context, s *suite, ours *fleet, peer *gossip) error {
	ours.gone.clear()
	peer.gone.clear()
	ours.c.m.lose.Store(100)
	peer.m.lose.Store(100)
	defer ours.c.m.lose.Store(0)
	defer peer.m.lose.Store(0)
	s.progress("losing a tenth of all datagrams for %s", s.size.loss)
	if err := pause(ctx, s.size.loss); err != nil {
		return err
	}
	r.ours = append(r.ours, float64(ours.gone.total(ours.lives)))
	r.peer = append(r.peer, float64(peer.gone.total(peer.lives)))
	return nil
}
