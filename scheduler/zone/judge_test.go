package zone

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func good(n int) (f Facts) {
	for range n {
		f.Hosts = append(f.Hosts, Host{Alive: true, Connected: true, Ready: true, Slots: 2, Free: 2})
	}
	return f
}

func with(n int, change func(i int, h *Host)) Facts {
	f := good(n)
	for i := range f.Hosts {
		change(i, &f.Hosts[i])
	}
	return f
}

func TestJudge(t *testing.T) {
	below := func(n int, change func(*Host)) func(int, *Host) {
		return func(i int, h *Host) {
			if i < n {
				change(h)
			}
		}
	}
	dead := func(h *Host) { h.Alive, h.Connected = false, false }
	for name, c := range map[string]struct {
		facts Facts
		want  Health
		why   string
		full  bool
	}{
		"good":              {good(3), Healthy, "", false},
		"empty":             {Facts{}, Unhealthy, "it has no hosts", false},
		"all dead":          {with(3, below(3, dead)), Unhealthy, "none of 3 hosts is alive", false},
		"no stream":         {with(3, below(3, func(h *Host) { h.Connected = false })), Unhealthy, "no worker of 3 hosts is reached", false},
		"dead with streams": {with(2, below(2, func(h *Host) { h.Alive = false })), Unhealthy, "none of 2 hosts is alive", false},
		"a third alive":     {with(3, below(2, dead)), Degraded, "1 of 3 hosts alive", false},
		"half alive":        {with(4, below(2, dead)), Healthy, "", false},
		"drained":           {with(3, below(3, func(h *Host) { h.Drained = true })), Unhealthy, "all of its 3 hosts are drained", false},
		"drained and dead":  {with(3, below(2, func(h *Host) { dead(h); h.Drained = true })), Healthy, "", false},
		"half stuck":        {with(4, below(2, func(h *Host) { h.Stuck = true })), Degraded, "of 4 workers: 2 stuck", false},
		"one of four stuck": {with(4, below(1, func(h *Host) { h.Stuck = true })), Healthy, "", false},
		"mixed": {with(4, func(i int, h *Host) {
			h.Stuck, h.Ready, h.Overloaded = i == 0, i != 1, i == 2
		}), Degraded, "of 4 workers: 1 stuck, 1 not ready, 1 overloaded", false},
		"full":       {with(3, below(3, func(h *Host) { h.Free = 0 })), Healthy, "", true},
		"negative":   {with(1, below(1, func(h *Host) { h.Free = -3 })), Healthy, "", true},
		"no slots":   {with(1, below(1, func(h *Host) { h.Slots, h.Free = 0, 0 })), Busy, "its workers have no slots", false},
		"blind":      {Facts{Blind: true, Hosts: []Host{{Alive: true}}}, Healthy, "", false},
		"blind dead": {Facts{Blind: true, Hosts: []Host{{}}}, Unhealthy, "none of 1 hosts is alive", false},
	} {
		got := judge(c.facts)
		if got.health != c.want || got.why != c.why || got.full != c.full {
			t.Errorf("%s: %v %q full %v, want %v %q %v", name, got.health, got.why, got.full, c.want, c.why, c.full)
		}
	}
}

// TestWorseAtOnceBetterLater walks a zone down and up.
func TestWorseAtOnceBetterLater(t *testing.T) {
	var s State
	second := time.Second
	full := with(2, func(_ int, h *Host) { h.Free = 0 })
	dead := with(2, func(_ int, h *Host) { h.Alive = false })
	for i, x := range []struct {
		at      time.Duration
		facts   Facts
		want    Health
		changed bool
	}{
		{0, good(2), Healthy, true},
		{1 * second, dead, Unhealthy, true},
		{2 * second, good(2), Unhealthy, false},
		{11 * second, dead, Unhealthy, false}, // the wait for better begins again
		{12 * second, good(2), Unhealthy, false},
		{21 * second, good(2), Unhealthy, false},
		{22 * second, good(2), Healthy, true},
		{23 * second, full, Healthy, false},
		{27 * second, full, Healthy, false},
		{28 * second, full, Busy, true},
		{29 * second, good(2), Busy, false},
		{30 * second, full, Busy, false}, // which is not full for long again, and was not well for long
		{36 * second, good(2), Busy, false},
		{46 * second, good(2), Healthy, true},
	} {
		var changed bool
		if s, changed = Step(s, x.facts, x.at); s.Health != x.want || changed != x.changed {
			t.Fatalf("step %d at %v: %v, changed %v; want %v, %v", i, x.at, s.Health, changed, x.want, x.changed)
		}
		if s.Health != Healthy && s.Why == "" {
			t.Fatalf("step %d: no reason", i)
		}
	}
	if s.Since != 46*second {
		t.Errorf("healthy since %v", s.Since)
	}
}

// twin decides from the whole past what Step decides from one look and its state.
func twin(past []verdict, at []time.Duration) (now Health) {
	seen := make([]Health, len(past))
	for i, v := range past {
		seen[i] = v.health
		first := i // of the looks in a row that found no room
		for first > 0 && past[first-1].full {
			first--
		}
		if v.full && at[i]-at[first] >= FullTime {
			seen[i] = Busy
		}
	}
	for i := 0; i < len(seen); i++ {
		if seen[i] >= now {
			now = seen[i]
			continue
		}
		// It is better as soon as that is so for long enough, unless it is not before.
		for end := i; end < len(seen) && seen[end] < now; end++ {
			if i = end; at[end]-at[first(seen, now, end)] >= BetterTime {
				now = seen[end]
				break
			}
		}
	}
	return now
}

// first is the first look of those in a row until end that are better than now.
func first(seen []Health, now Health, end int) int {
	for end > 0 && seen[end-1] < now {
		end--
	}
	return end
}

// TestTwin holds Step against a twin that looks at the whole past each time.
func TestTwin(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test
		var s State
		var past []verdict
		var at []time.Duration
		now := time.Duration(0)
		facts := good(3)
		for range 60 {
			now += time.Duration(1+r.IntN(3)) * time.Second
			if r.IntN(3) == 0 {
				facts = with(1+r.IntN(4), func(_ int, h *Host) {
					h.Alive, h.Connected, h.Ready = r.IntN(4) > 0, r.IntN(5) > 0, r.IntN(5) > 0
					h.Free, h.Stuck = r.IntN(2), r.IntN(6) == 0
				})
			} else if r.IntN(3) == 0 {
				facts = with(2, func(_ int, h *Host) { h.Free = r.IntN(3) / 2 })
			}
			past, at = append(past, judge(facts)), append(at, now)
			s, _ = Step(s, facts, now)
			if want := twin(past, at); s.Health != want {
				t.Fatalf("seed %d at %v: %v, the twin says %v", seed, now, s.Health, want)
			}
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, in []byte) {
		var facts Facts
		for _, b := range in {
			facts.Hosts = append(facts.Hosts, Host{
				Alive: b&1 > 0, Drained: b&2 > 0, Connected: b&4 > 0, Ready: b&8 > 0, Stuck: b&16 > 0, Overloaded: b&32 > 0, Slots: int(b >> 6), Free: int(b>>6) - 1,
			})
		}
		v := judge(facts)
		if v.health < Healthy || v.health > Unhealthy || (v.why == "") != (v.health == Healthy) {
			t.Errorf("%v %q of %+v", v.health, v.why, facts)
		}
		// A host more that is well never makes a zone worse.
		more := facts
		more.Hosts = append(slices.Clip(more.Hosts), good(1).Hosts...)
		if w := judge(more); w.health > v.health && v.health != Healthy {
			t.Errorf("%v with a good host more, %v without", w.health, v.health)
		}
	})
}
