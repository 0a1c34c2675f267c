package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
)

// Headline answers in one line: what is this host, is all well.
func Headline(s api.Status) string {
	line := fmt.Sprintf("%s %s   cluster %s   term %s   %s", s.Node, OrDash(s.Role), OrDash(s.Cluster), TermOf(uint64(s.Term)), s.State)
	if len(s.Reasons) > 0 {
		line += ": " + strings.Join(s.Reasons, ", ")
	}
	return line
}

// Status is what stands below the headline.
func Status(s api.Status) []Field {
	lease := fmt.Sprintf("mode %s, %s, profile %s", OrDash(s.Lease.Mode), Plural(s.Lease.Voters, "voter"), OrDash(s.Lease.Profile))
	if len(s.Lease.Abstaining) > 0 {
		lease += ", abstaining " + Joined(s.Lease.Abstaining)
	}
	m := s.Members
	members := []string{fmt.Sprintf("%d of %d alive", m.Alive, m.Total)}
	for _, p := range []struct {
		n    int
		word string
	}{{m.Joining, "not heard yet"}, {m.Suspect, "suspect"}, {m.Dead - m.Stopped, "dead"}, {m.Stopped, "stopped"}} {
		if p.n > 0 {
			members = append(members, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	mesh := fmt.Sprintf("%s %s, %s", Device(s.Mesh), OrDash(s.Mesh.Address), Plural(s.Mesh.PeerCount, "peer"))
	if s.Mesh.PeerCount > 0 {
		mesh += ", oldest handshake " + AgeOf(s.Mesh.OldestHandshakeSeconds)
	}
	log := fmt.Sprintf("%s in %s, %s, state %s", count(s.Log.Events, "event"), Plural(s.Log.Sources, "source"),
		BytesOf(s.Log.SizeBytes), s.Log.StateHash.String()[:12])
	switch {
	case s.Log.CheckProblem != "":
		log += ", " + s.Log.CheckProblem
	case s.Log.CheckedAt != nil:
		log += ", found whole " + When(*s.Log.CheckedAt, s.ObservedAt, false) + " ago"
	}
	worker := fmt.Sprintf("%d of %s busy, %d queued", s.Worker.Running, Plural(s.Worker.Slots, "slot"), s.Worker.Queued)
	if s.Worker.Draining {
		worker += ", draining: nothing new begins"
	}
	fields := []Field{
		{"holder", Holder(s.Lease)},
	}
	if s.Lease.Holder == "" && s.Lease.Blocked != "" { // else it is about this host alone: see `skein lease`
		fields = append(fields, Field{"blocked", s.Lease.Blocked})
	}
	fields = append(fields, []Field{
		{"publisher", Publisher(s.Lease)},
		{"publish", Publish(s.Publish, s.ObservedAt)},
		{"members", strings.Join(members, ", ")},
		{"lease", lease},
		{"mesh", mesh},
		{"log", log},
	}...)
	if snap := s.Log.Snapshot; snap != nil {
		fields = append(fields, Field{"snapshot", fmt.Sprintf("%s, signed by %s", count(snap.Events, "event"), Joined(snap.Signers))})
	}
	return append(fields,
		Field{"worker", worker},
		Field{"load", Load(s.Pressure)},
		Field{"jobs", fmt.Sprintf("%d running, %d pending, %d completed, %d failed", s.Jobs.Running, s.Jobs.Pending, s.Jobs.Completed, s.Jobs.Failed+s.Jobs.Partial)})
}

// Load says how loaded a host is, and by what.
func Load(p api.Pressure) string {
	if p.Level == "" {
		return Unknown // an older host
	}
	text := p.Level
	if p.Level != "normal" && p.Signal != "" {
		text += " by " + p.Signal
	}
	part := func(name string, share *float64) {
		if share != nil {
			text += fmt.Sprintf(", %s %.0f%%", name, 100**share)
		}
	}
	part("waits for cpu", p.CPU)
	part("memory left", p.MemoryLeft)
	if p.DelaySeconds >= 0.001 {
		text += ", work waits " + Age(p.DelaySeconds)
	}
	return text
}

// Publish says how the publishing of the onion addresses goes.
func Publish(p api.PublishSummary, now time.Time) string {
	last := ""
	if p.PublishedAt != nil {
		last = When(*p.PublishedAt, now, false) + " ago by " + OrDash(p.By)
	}
	switch p.State {
	case api.PublishFailing:
		text := "failing"
		if p.FailingSince != nil {
			text += " " + When(*p.FailingSince, now, false)
		}
		switch {
		case p.Asked > 0:
			text += fmt.Sprintf(": %d of %d directories", p.Stored, p.Asked)
		case p.Reason != "":
			text += ": " + p.Reason
		}
		if last != "" {
			text += ", last " + last
		}
		return text
	case api.PublishOK:
		text := "ok " + last
		switch {
		case p.NextAt == nil:
		case now.Before(*p.NextAt):
			text += ", next " + Ahead(*p.NextAt, now)
		default:
			text += ", next is due"
		}
		return text
	}
	return OrDash(p.State)
}
