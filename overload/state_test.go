package overload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// calm is a sample of a host that has nothing to do.
func calm() Sample {
	return Sample{Work: ms, Control: ms, CPU: 1, Memory: 0, IO: 0, MemoryLeft: 80}
}

// run feeds one sample a second for so long and returns the state and the time.
func run(c Config, s State, m Sample, from, long time.Duration) (State, time.Duration) {
	for at := from; at < from+long; at += time.Second {
		s = c.Step(s, m, at)
	}
	return s, from + long
}

func TestSignals(t *testing.T) {
	with := func(f func(*Sample)) Sample { m := calm(); f(&m); return m }
	for name, c := range map[string]struct {
		sample Sample
		level  Level // in the end
		by     Signal
	}{
		"nothing":                 {calm(), Normal, SignalLeft},
		"delay below":             {with(func(m *Sample) { m.Work = 49 * ms }), Normal, SignalWork},
		"delay":                   {with(func(m *Sample) { m.Work = 50 * ms }), Elevated, SignalWork},
		"delay twice":             {with(func(m *Sample) { m.Work = 100 * ms }), High, SignalWork},
		"delay four times":        {with(func(m *Sample) { m.Work = 200 * ms }), Severe, SignalWork},
		"delay of a second":       {with(func(m *Sample) { m.Work = time.Second }), Critical, SignalWork},
		"control":                 {with(func(m *Sample) { m.Control = 20 * ms }), Elevated, SignalControl},
		"all processors":          {with(func(m *Sample) { m.CPU = 100 }), Elevated, SignalCPU},
		"memory stalls":           {with(func(m *Sample) { m.Memory = 25 }), High, SignalMemory},
		"disk stalls":             {with(func(m *Sample) { m.IO = 40 }), Elevated, SignalIO},
		"little memory":           {with(func(m *Sample) { m.MemoryLeft = 5 }), High, SignalLeft},
		"no memory":               {with(func(m *Sample) { m.MemoryLeft = 0 }), Critical, SignalLeft},
		"unwell as a member":      {with(func(m *Sample) { m.Health = 6 }), Severe, SignalHealth},
		"nothing known":           {Sample{CPU: -1, Memory: -1, IO: -1, MemoryLeft: -1}, Normal, SignalNone},
		"garbage":                 {Sample{CPU: math.NaN(), Memory: math.Inf(1), IO: 1e300, MemoryLeft: -7, Work: -time.Hour}, Normal, SignalNone},
		"of several signals most": {with(func(m *Sample) { m.Work, m.MemoryLeft = 60*ms, 4 }), High, SignalLeft},
	} {
		s, _ := run(Config{}, State{}, c.sample, 0, time.Minute)
		if s.Level() != c.level || s.By() != c.by {
			t.Errorf("%s: %s by %q, want %s by %q", name, s.Level(), s.By(), c.level, c.by)
		}
	}
}

// TestWeigh: what people are told of the signals is what the score comes from.
func TestWeigh(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		m := Sample{
			Work: time.Duration(r.IntN(400)) * ms, Control: time.Duration(r.IntN(100)) * ms, CPU: float64(r.IntN(110)) - 5, Memory: float64(r.IntN(50)) - 5,
			IO: float64(r.IntN(90)) - 5, MemoryLeft: float64(r.IntN(100)) - 5, Health: r.IntN(10),
		}
		s := Config{}.Step(State{}, m, 0)
		worst := Weight{}
		for _, w := range (Config{}).Weigh(m, 0, 0) {
			if w.Score > worst.Score {
				worst = w
			}
			if over := w.Score >= 2; w.Value >= 0 && w.Signal != SignalLeft && over != (w.Value >= w.From) || w.Signal == SignalLeft && w.Value >= 0 && over != (w.Value <= w.From) {
				t.Fatalf("%+v", w)
			}
			if w.Value < 0 && w.Score > 0 {
				t.Fatalf("not known: %+v", w)
			}
		}
		if worst.Score != s.Score() || worst.Signal != s.By() {
			t.Fatalf("%+v: %+v, the score is %g by %s", m, worst, s.Score(), s.By())
		}
	}
	slow := Config{}.Weigh(Sample{Work: 90 * ms}, 40*ms, 0)
	if slow[0].From != 0.12 || slow[0].Score >= 2 {
		t.Errorf("where 40 ms is usual: %+v", slow[0])
	}
}

func TestLadder(t *testing.T) {
	bad := calm()
	bad.Work = time.Second
	s, now := run(Config{}, State{}, calm(), 0, time.Minute)
	// A level each 2 s, none sooner.
	for i := range 11 {
		s = Config{}.Step(s, bad, now)
		if want := min(Level(i/2), MaxLevel); s.Level() != want {
			t.Fatalf("after %d s: %s, want %s", i, s.Level(), want)
		}
		now += time.Second
	}
	// And down one each 10 s.
	for i := range 51 {
		s = Config{}.Step(s, calm(), now)
		if want := MaxLevel - min(Level(i/10), MaxLevel); s.Level() != want {
			t.Fatalf("%d s after: %s, want %s", i, s.Level(), want)
		}
		now += time.Second
	}
}

// A burst of a second is no overload, nor is what lies between the two thresholds a
// reason to leave a level.
func TestHysteresis(t *testing.T) {
	burst := calm()
	burst.Work = time.Second
	s, now := run(Config{}, State{}, calm(), 0, time.Minute)
	for range 20 {
		s, now = run(Config{}, s, burst, now, time.Second)
		s, now = run(Config{}, s, calm(), now, time.Second)
		if s.Level() != Normal {
			t.Fatalf("a burst of a second: %s", s.Level())
		}
	}
	between := calm()
	between.Work = 50 * ms
	s, now = run(Config{}, s, between, now, 5*time.Second)
	between.Work = 36 * ms // 0.72 of where elevated begins
	if s, now = run(Config{}, s, between, now, time.Minute); s.Level() != Elevated {
		t.Fatalf("left at 0.72 of its threshold: %s", s.Level())
	}
	between.Work = 34 * ms
	if s, _ = run(Config{}, s, between, now, 11*time.Second); s.Level() != Normal {
		t.Fatalf("not left at 0.68 of its threshold: %s", s.Level())
	}
}

// What lasts for an hour never becomes what is usual.
func TestOverloadIsNeverUsual(t *testing.T) {
	s, now := run(Config{}, State{}, calm(), 0, 20*time.Minute)
	before, _ := s.Usual()
	bad := calm()
	bad.Work = 60 * ms
	s, now = run(Config{}, s, bad, now, time.Hour)
	after, _ := s.Usual()
	if s.Level() != Elevated || after-before > ms {
		t.Fatalf("after an hour: %s, usual %s, before %s", s.Level(), after, before)
	}
	// Nor what creeps: a slow host is judged by three times what is usual there, but
	// that ends at three times what is configured.
	s = State{}
	slow := calm()
	for range 600 {
		slow.Work = min(slow.Work+ms, 10*time.Second)
		s, now = run(Config{}, s, slow, now, time.Minute)
		if s.Level() != Normal {
			break
		}
	}
	if slow.Work > 151*ms {
		t.Fatalf("overload was learnt: %s is normal", slow.Work)
	}
}

// A host that is slow by nature is not overloaded at what is usual there.
func TestSlowHost(t *testing.T) {
	slow := calm()
	slow.Work = 40 * ms
	s, now := run(Config{}, State{}, slow, 0, time.Hour)
	slow.Work = 90 * ms
	if s, now = run(Config{}, s, slow, now, 10*time.Second); s.Level() != Normal {
		t.Fatalf("90 ms where 40 ms is usual: %s", s.Level())
	}
	slow.Work = 125 * ms
	if s, _ = run(Config{}, s, slow, now, 10*time.Second); s.Level() != Elevated {
		t.Fatalf("125 ms where 40 ms is usual: %s", s.Level())
	}
}

func TestAsleep(t *testing.T) {
	bad := calm()
	bad.Work = time.Second
	s := Config{}.Step(State{}, bad, 0)
	if s = (Config{}).Step(s, bad, time.Hour); s.Level() != Normal {
		t.Fatal("the time in which it slept counts as overload")
	}
	if old := (Config{}).Step(s, calm(), time.Minute); old != s {
		t.Fatal("an old sample counts")
	}
}

func TestDelayIsConfigured(t *testing.T) {
	m := calm()
	m.Work = 150 * ms
	s, _ := run(Config{Delay: 200 * ms}, State{}, m, 0, time.Minute)
	if s.Level() != Normal {
		t.Fatalf("150 ms with a delay of 200 ms: %s", s.Level())
	}
}

// twin keeps all samples, and decides from them alone.
type twin struct {
	at     []time.Duration
	scores []float64
	level  Level
	since  int // of which sample on this level counts

	strained bool
	turned   int // of which sample on it counts whether it is
}

func (w *twin) step(now time.Duration, score float64) {
	if n := len(w.at); n > 0 && now-w.at[n-1] > MaxGap {
		w.since, w.turned = n, n
	}
	w.at, w.scores = append(w.at, now), append(w.scores, score)
	// For how long now all samples have met a condition.
	heldFrom := func(since int, meets func(float64) bool) time.Duration {
		long := never
		for i := len(w.at) - 1; i >= since && meets(w.scores[i]); i-- {
			long = now - w.at[i]
		}
		return long
	}
	held := func(meets func(float64) bool) time.Duration { return heldFrom(w.since, meets) }
	switch {
	case held(func(x float64) bool { return levelOf(x) > w.level }) >= RiseAfter:
		w.level, w.since = w.level+1, len(w.at)-1
	case w.level > Normal && held(func(x float64) bool { return x < fallBelow*begins[w.level] }) >= FallAfter:
		w.level, w.since = w.level-1, len(w.at)-1
	}
	switch {
	case w.level < High:
		w.strained, w.turned = false, len(w.at)
	case !w.strained && heldFrom(w.turned, func(x float64) bool { return x >= strainedFrom }) >= strainAfter,
		w.strained && heldFrom(w.turned, func(x float64) bool { return x < fallBelow*strainedFrom }) >= FallAfter:
		w.strained, w.turned = !w.strained, len(w.at)-1
	}
}

// against runs samples through both and checks what always holds.
func against(t *testing.T, samples []Sample, pauses []time.Duration) {
	var (
		s     State
		w     twin
		now   time.Duration
		moved = -time.Hour
	)
	for i, m := range samples {
		now += pauses[i]
		before := s
		s = Config{}.Step(s, m, now)
		w.step(now, s.Score())
		if s.Level() != w.level {
			t.Fatalf("sample %d at %s, score %.2f: %s, the twin says %s", i, now, s.Score(), s.Level(), w.level)
		}
		if s.Load() != (Load{w.level, w.strained}) {
			t.Fatalf("sample %d at %s, score %.2f: %+v, the twin says %t", i, now, s.Score(), s.Load(), w.strained)
		}
		if s.Load().Sheds(Submit) && !s.Load().Sheds(Status) {
			t.Fatalf("%+v refuses work and tells how things are", s.Load())
		}
		if math.IsNaN(s.Score()) || s.Score() < 0 || s.Score() > maxScore {
			t.Fatalf("score %f", s.Score())
		}
		up, down := s.Level() > before.Level(), s.Level() < before.Level()
		if up && now-moved < RiseAfter || down && now-moved < FallAfter || int(s.Level())-int(before.Level()) > 1 {
			t.Fatalf("from %s to %s after %s", before.Level(), s.Level(), now-moved)
		}
		if up || down {
			moved = now
		}
		if (before.Level() > Normal || levelOf(s.Score()) > Normal) && s.usual != before.usual {
			t.Fatalf("%s, score %.2f: learnt that %v is usual", before.Level(), s.Score(), s.usual)
		}
	}
}

func TestTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var samples []Sample
		var pauses []time.Duration
		base := 1 + r.IntN(400)
		for range 300 {
			if r.IntN(20) == 0 {
				base = 1 + r.IntN(400)
			}
			m := calm()
			m.Work = time.Duration(base+r.IntN(20)) * ms
			samples, pauses = append(samples, m), append(pauses, time.Duration(200+r.IntN(1200))*ms)
		}
		against(t, samples, pauses)
	}
}

func FuzzTwin(f *testing.F) {
	f.Add([]byte{1, 200, 0, 0, 3, 7, 250, 9, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		var samples []Sample
		var pauses []time.Duration
		for ; len(text) >= 4 && len(samples) < 500; text = text[4:] {
			samples = append(samples, Sample{
				Work: time.Duration(text[0]) * 4 * ms, Control: time.Duration(text[1]) * ms / 4, CPU: float64(text[2]) - 20,
				MemoryLeft: 100 - float64(text[1]), Memory: -1, IO: math.Log(float64(text[2])), Health: int(text[3] >> 4),
			})
			pauses = append(pauses, time.Duration(text[3]&15)*400*ms)
		}
		against(t, samples, pauses)
	})
}

// TestStatusGoesBeforeSubmissions: on the way up questions about one thing are refused before
// work is, on the way down work is taken first.
func TestStatusGoesBeforeSubmissions(t *testing.T) {
	at := func(score float64) Sample {
		m := calm()
		m.Work = time.Duration(math.Exp2((score-2)/2) * float64(50*ms))
		return m
	}
	seen := func(score float64, s State, from, long time.Duration) (State, time.Duration, []Lane) {
		var order []Lane
		for now := from; now < from+long; now += time.Second / 2 {
			before := s.Load()
			s = Config{}.Step(s, at(score), now)
			for _, lane := range []Lane{Status, Submit} {
				if before.Sheds(lane) != s.Load().Sheds(lane) {
					order = append(order, lane)
				}
			}
		}
		return s, from + long, order
	}
	s, now, order := seen(4.5, State{}, 0, time.Minute)
	if s.Level() != High || len(order) > 0 {
		t.Fatalf("a host that is high refuses %v", order)
	}
	if s, now, order = seen(5.5, s, now, time.Minute); s.Level() != High || !slices.Equal(order, []Lane{Status}) {
		t.Fatalf("a host that is strained: %s, %v", s.Level(), order)
	}
	if s, now, order = seen(3.6, s, now, time.Minute); s.Level() != High || len(order) > 0 {
		t.Fatalf("between: %s, %v", s.Level(), order)
	}
	if s, now, order = seen(3, s, now, time.Minute); s.Level() != High || !slices.Equal(order, []Lane{Status}) {
		t.Fatalf("no longer strained: %s, %v", s.Level(), order)
	}
	if s, now, order = seen(8, s, now, time.Minute); s.Level() != Critical || !slices.Equal(order, []Lane{Status, Submit}) {
		t.Fatalf("all at once: %s, %v", s.Level(), order)
	}
	if s, _, order = seen(4, s, now, 40*time.Second); s.Level() != High || !slices.Equal(order, []Lane{Submit}) {
		t.Fatalf("on the way down: %s, %v", s.Level(), order)
	}
}

// What is shed follows the order of the lanes, and what must never be is not.
func TestOrderOfShedding(t *testing.T) {
	for level := Normal; level <= MaxLevel; level++ {
		for _, never := range []Lane{Vital, Control, Carried} {
			if level.Sheds(never) {
				t.Errorf("%s sheds %s", level, never)
			}
		}
		for lane := Assign; lane < Telemetry; lane++ {
			if level.Sheds(lane) && !level.Sheds(lane+1) {
				t.Errorf("%s sheds %s and not %s", level, lane, lane+1)
			}
		}
		for lane := Assign; level > Normal && lane <= Telemetry; lane++ {
			if (level - 1).Sheds(lane) && !level.Sheds(lane) {
				t.Errorf("%s sheds %s, %s does not", level-1, lane, level)
			}
		}
	}
	for lane := Assign; lane <= Telemetry; lane++ {
		if Normal.Sheds(lane) || !MaxLevel.Sheds(lane) {
			t.Errorf("%s: normal sheds it %v, critical %v", lane, Normal.Sheds(lane), MaxLevel.Sheds(lane))
		}
	}
}

// TestWhatALevelDoes is the table of docs/overload.md.
func TestWhatALevelDoes(t *testing.T) {
	for level, want := range []struct{ slows, pauses, chunks, gives, holds, told bool }{
		Normal:   {chunks: true, holds: true},
		Elevated: {slows: true, chunks: true, holds: true},
		High:     {slows: true, pauses: true, holds: true, told: true},
		Severe:   {slows: true, pauses: true, gives: true, holds: true, told: true},
		Critical: {slows: true, pauses: true, gives: true, told: true},
	} {
		l := Level(level) //nolint:gosec // one of five
		if got := (struct{ slows, pauses, chunks, gives, holds, told bool }{l.Slows(), l.Pauses(), l.TakesChunks(), l.GivesUpLease(), l.MayHold(), l.Told()}); got != want {
			t.Errorf("%s: %+v, want %+v", l, got, want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	var s State
	m := calm()
	var now time.Duration
	for b.Loop() {
		now += time.Second
		s = Config{}.Step(s, m, now)
	}
	_ = s
}
