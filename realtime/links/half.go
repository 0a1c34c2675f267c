package links

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Unknown is the state of a half of which there is no report.
const Unknown cluster.Health = "unknown"

// Paths: over the mesh, or over tor.
const (
	Direct = "direct"
	Onion  = "onion"
)

// Half is what a host knows of its way to another.
type Half struct {
	To    cluster.NodeID `json:"to"`
	State cluster.Health `json:"state"`
	Path  string         `json:"path,omitempty"` // direct, onion, or empty: none
	// Handshake is when the last one was, in seconds since 1970; 0: never.
	Handshake int64 `json:"handshake,omitempty"`
	// RTT is 0 where it was not measured. Rates are of the last seconds.
	RTT      float64 `json:"rtt,omitempty"`
	Receive  float64 `json:"rx,omitempty"`
	Transmit float64 `json:"tx,omitempty"`
}

// Well reports whether all is as it should be.
func (h Half) Well() bool { return h.State == cluster.Alive && h.Path == Direct }

// coarse is h without digits that change all the time and say nothing.
func (h Half) coarse() Half {
	for _, v := range [...]*float64{&h.RTT, &h.Receive, &h.Transmit} {
		*v = digits(*v)
	}
	return h
}

// digits rounds to two significant digits.
func digits(v float64) float64 {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}

// Report is what a host tells of its halves.
type Report struct {
	// All says that there are no others.
	All bool             `json:"all,omitempty"`
	Set []Half           `json:"set,omitempty"`
	Del []cluster.NodeID `json:"del,omitempty"`
}

// MaxHalves bounds what is kept of one host.
const MaxHalves = 1024

// Check refuses what no host tells: reports come from other hosts.
func (r Report) Check() error {
	if n := len(r.Set) + len(r.Del); n > MaxHalves {
		return fmt.Errorf("report of %d half-edges, at most %d are allowed", n, MaxHalves)
	}
	for _, h := range r.Set {
		if _, err := cluster.ParseNodeID(string(h.To)); err != nil {
			return fmt.Errorf("half-edge: %w", err)
		}
		switch h.State {
		case cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead:
		default:
			return fmt.Errorf("half-edge to %s: state %.16q", h.To, h.State)
		}
		if h.Path != "" && h.Path != Direct && h.Path != Onion {
			return fmt.Errorf("half-edge to %s: path %.16q", h.To, h.Path)
		}
		if h.Handshake < 0 || h.RTT < 0 || h.Receive < 0 || h.Transmit < 0 { // JSON has neither NaN nor infinity
			return fmt.Errorf("half-edge to %s: a figure is below 0", h.To)
		}
	}
	return nil
}

// Peer is what is seen of another host at one moment.
type Peer struct {
	Half           // without rates
	Rx, Tx  uint64 // bytes so far
	Counted bool   // they are known
}

// Teller tells one reader the halves of a host. The zero value has told nothing.
type Teller struct {
	// Few says that only what is not well is told.
	Few  bool
	told map[cluster.NodeID]Half // nil: nothing yet
	seen map[cluster.NodeID]Peer
	at   time.Duration
}

// Tell returns what has changed, with what is seen now. The first report has all.
func (t *Teller) Tell(peers []Peer, now time.Duration) Report {
	r := Report{All: t.told == nil}
	seen, told := map[cluster.NodeID]Peer{}, map[cluster.NodeID]Half{}
	for _, p := range peers {
		seen[p.To] = p
		h := p.rates(t.seen[p.To], now-t.at).coarse()
		if t.Few && h.Well() {
			continue
		}
		told[h.To] = h
		if old, known := t.told[h.To]; !known || old != h {
			r.Set = append(r.Set, h)
		}
	}
	for node := range t.told {
		if _, still := told[node]; !still {
			r.Del = append(r.Del, node)
		}
	}
	slices.Sort(r.Del)
	t.told, t.seen, t.at = told, seen, now
	return r
}

// rates returns the half with its rates since it was seen before.
func (p Peer) rates(before Peer, took time.Duration) Half {
	h := p.Half
	if p.Counted && before.Counted && took > 0 {
		rate := func(now, then uint64) float64 {
			if now < then {
				return 0 // another device counts
			}
			return float64(now-then) / took.Seconds()
		}
		h.Receive, h.Transmit = rate(p.Rx, before.Rx), rate(p.Tx, before.Tx)
	}
	return h
}

// apply takes a report in.
func apply(halves map[cluster.NodeID]Half, r Report) map[cluster.NodeID]Half {
	out := map[cluster.NodeID]Half{}
	if !r.All {
		maps.Copy(out, halves)
	}
	for _, h := range r.Set {
		if _, known := out[h.To]; known || len(out) < MaxHalves {
			out[h.To] = h
		}
	}
	for _, node := range r.Del {
		delete(out, node)
	}
	return out
}
