package swim

import (
	"os"
	"slices"
	"testing"
	"time"
)

func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// detection crashes one host and returns when the first and the last of the
// others took it out.
func detection(t *testing.T, n int, seed uint64) (first, mid, last time.Duration) {
	t.Helper()
	s := newSimulation(n, seed)
	s.run(5 * time.Second)
	victim := int(s.random() % uint64(n))
	start := s.now
	var at []time.Duration
	s.failed = func(now time.Duration, judge, node int) {
		if node != victim {
			t.Errorf("seed %d: %d fails %d, which lives", seed, judge, node)
		}
		at = append(at, now-start)
	}
	s.crash(victim)
	if _, ok := s.until(time.Minute, func() bool { return len(at) >= n-1 }); !ok {
		t.Fatalf("seed %d: only %d of %d noticed", seed, len(at), n-1)
	}
	return at[0], at[len(at)/2], at[len(at)-1]
}

func TestDetection(t *testing.T) {
	runs, sizes := 6, []int{100}
	if prove() {
		runs, sizes = 40, []int{100, 500}
	}
	for _, n := range sizes {
		var first, mid, last []time.Duration
		for i := range runs {
			a, b, c := detection(t, n, uint64(i+1))
			first, mid, last = append(first, a), append(mid, b), append(last, c)
		}
		t.Logf("%d hosts, %d crashes: medians: first %s, half %s, all %s; slowest all %s",
			n, runs, median(first), median(mid), median(last), slices.Max(last))
		// memberlist's LAN profile takes 10.6 s with 100 hosts.
		if limit := 8 * time.Second; median(last) > limit {
			t.Errorf("%d hosts: all know after %s, want %s", n, median(last), limit)
		}
	}
}

// TestIdleTraffic: what a host sends does not grow with the cluster.
func TestIdleTraffic(t *testing.T) {
	for _, n := range []int{100, 500} {
		s := newSimulation(n, 1)
		s.run(10 * time.Second)
		for _, nd := range s.nodes {
			nd.sent, nd.got = 0, 0
		}
		const d = 60
		s.run(d * time.Second)
		var sum, most, mostGot uint64
		for _, nd := range s.nodes {
			sum += nd.sent
			most, mostGot = max(most, nd.sent), max(mostGot, nd.got)
		}
		mean := float64(sum) / float64(n) / d
		t.Logf("%d hosts: %.0f B/s sent per host, most %d, received at most %d", n, mean, most/d, mostGot/d)
		if mean > 750 || most/d > 900 {
			t.Errorf("%d hosts: %.0f B/s, most %d", n, mean, most/d)
		}
	}
}

// TestLoss: nobody who lives is taken out at 10 % loss; at 30 % hardly anyone,
// and not for long.
func TestLoss(t *testing.T) {
	minutes := 1
	sizes := []int{100}
	if prove() {
		minutes, sizes = 10, []int{100, 500}
	}
	for _, n := range sizes {
		for _, loss := range []float64{.1, .3} {
			minutes := minutes
			if n > 100 && loss > .1 {
				minutes = min(minutes, 2) // doubts of all by all: much to simulate
			}
			s := newSimulation(n, 7)
			s.run(5 * time.Second)
			s.loss = loss
			wrong := 0
			s.failed = func(time.Duration, int, int) { wrong++ }
			before := s.bytes
			d := time.Duration(minutes) * time.Minute
			s.run(d)
			var st Stats
			score := 0
			for _, nd := range s.nodes {
				v := nd.core.Stats()
				st.Suspicions += v.Suspicions
				st.Accusations += v.Accusations
				st.Refutations += v.Refutations
				score = max(score, nd.core.Score())
			}
			t.Logf("%d hosts, %.0f %% loss, %s: %d wrong verdicts, %d accusations, %d suspicions, %d refutations, worst score %d, %.0f B/s per host",
				n, loss*100, d, wrong, st.Accusations, st.Suspicions, st.Refutations, score, float64(s.bytes-before)/d.Seconds()/float64(n))
			if loss == .1 && wrong > 0 {
				t.Errorf("%d wrong verdicts at 10 %% loss", wrong)
			}
			if wrong > n*n*minutes/100 {
				t.Errorf("%d wrong verdicts", wrong)
			}
			s.loss = 0
			if took, ok := s.until(time.Minute, s.agree); !ok {
				t.Errorf("no agreement %s after the loss", took)
			}
		}
	}
}

// TestMassFailure: 30 % of the hosts end at once.
func TestMassFailure(t *testing.T) {
	sizes := []int{100}
	if prove() {
		sizes = append(sizes, 500)
	}
	for _, n := range sizes {
		s := newSimulation(n, 3)
		s.run(5 * time.Second)
		for i := range n * 3 / 10 {
			s.crash(i * 3)
		}
		wrong := 0
		s.failed = func(_ time.Duration, _, node int) {
			if s.nodes[node].up {
				wrong++
			}
		}
		took, ok := s.until(3*time.Minute, s.agree)
		t.Logf("%d hosts: agreement after %s, %d wrong verdicts", n, took, wrong)
		if !ok || took > time.Minute || wrong > 0 {
			t.Errorf("%d hosts: agreement %t after %s, %d wrong verdicts", n, ok, took, wrong)
		}
	}
}

// TestPartition: halves that were apart for 10 minutes are whole soon after.
func TestPartition(t *testing.T) {
	sizes := []int{100}
	apart := 2 * time.Minute
	if prove() {
		sizes, apart = []int{100, 500}, 10*time.Minute
	}
	for _, n := range sizes {
		s := newSimulation(n, 5)
		s.run(5 * time.Second)
		s.cut = func(a, b int) bool { return a < n/2 != (b < n/2) }
		split := func() bool {
			for i, nd := range s.nodes {
				for _, p := range nd.core.list {
					if (p.state >= Failed) != s.cut(i, s.byID[p.node]) {
						return false
					}
				}
			}
			return true
		}
		noticed, ok := s.until(2*time.Minute, split)
		if !ok {
			t.Errorf("%d hosts: the halves do not agree after %s", n, noticed)
		}
		s.run(apart)
		if !split() {
			t.Errorf("%d hosts: wrong verdicts in a half", n)
		}
		s.cut = nil
		healed, ok := s.until(2*time.Minute, s.agree)
		t.Logf("%d hosts: apart after %s, whole after %s", n, noticed, healed)
		if !ok || healed > time.Minute {
			t.Errorf("%d hosts: whole again %t after %s", n, ok, healed)
		}
	}
}

// TestRestartStorm: all hosts restart within 10 seconds, each a second long
// away. They come back knowing names only, introduce themselves to 20 hosts a
// second, of which those that are away hear nothing, and are soon whole: each
// has an answer of each in its new boot. Some are late to hear that one is back
// and take the boot that ended for failed; nobody does of the new one.
func TestRestartStorm(t *testing.T) {
	sizes := []int{100}
	if prove() {
		sizes = []int{100, 500}
	}
	for _, n := range sizes {
		const tick, away = 50 * time.Millisecond, 20 // away in ticks
		s := newSimulation(n, 9)
		s.run(5 * time.Second)
		old := 0
		s.failed = func(at time.Duration, judge, node int) {
			switch o := s.nodes[node]; {
			case o.up && s.nodes[judge].core.peers[nodeName(node)].boot == o.boot:
				t.Errorf("at %s %d fails %d, which is back", at, judge, node)
			case o.up:
				old++
			}
		}
		told := make([]int, n) // hosts that each introduced itself to since its start
		for i := range told {
			told[i] = n
		}
		storm := int(10 * time.Second / tick)
		whole := func() bool {
			for _, nd := range s.nodes {
				for _, p := range nd.core.list {
					if o := s.nodes[s.byID[p.node]]; !p.confirmed || p.state != Alive || p.boot != o.boot {
						return false
					}
				}
			}
			return true
		}
		end, limit := time.Duration(0), storm+away+int(time.Minute/tick)
		for at := 0; at < storm+away || !whole(); at++ {
			if at > limit {
				t.Fatalf("%d hosts: not whole %s after the storm", n, s.now-end)
			}
			for i := range n {
				switch down := i * storm / n; at {
				case down:
					s.crash(i)
				case down + away:
					s.start(i, false)
					told[i], end = 1, s.now
				}
				if s.nodes[i].up && told[i] < n {
					s.met(i, (i+told[i])%n)
					told[i]++
				}
			}
			s.run(tick)
		}
		took := s.now - end
		t.Logf("%d hosts: whole %s after the storm, %d verdicts of a boot that had ended", n, took, old)
		if took > time.Duration(n)*tick+10*time.Second {
			t.Errorf("%d hosts: whole %s after the storm", n, took)
		}
	}
}

// TestSlowHostAccusesNobody: a host that stands still again and again, longer
// than any timeout, thinks ill of itself and of nobody else.
func TestSlowHostAccusesNobody(t *testing.T) {
	const n, slow = 70, 7
	s := newSimulation(n, 11)
	s.run(5 * time.Second)
	s.failed = func(at time.Duration, judge, node int) {
		if node != slow {
			t.Errorf("at %s %d fails %d, which lives", at, judge, node)
		}
	}
	worst := 0
	for range 30 {
		s.nodes[slow].stall = s.now + 2500*time.Millisecond
		s.run(4 * time.Second)
		worst = max(worst, s.nodes[slow].core.Score())
	}
	var accused uint64
	for i, nd := range s.nodes {
		if i != slow {
			accused += nd.core.Stats().Accusations
		}
	}
	own := s.nodes[slow].core.Stats()
	t.Logf("the slow host: score up to %d, %d accusations by it, %d of it", worst, own.Accusations, accused)
	if own.Accusations > 0 || worst < 2 {
		t.Errorf("%d accusations by the slow host, worst score %d", own.Accusations, worst)
	}
	s.run(30 * time.Second)
	if !s.agree() || s.nodes[slow].core.Score() != 0 {
		t.Errorf("not well again: score %d", s.nodes[slow].core.Score())
	}
}

// TestCutOffHost: whom no helper answers either keeps what it
// suspects to itself, takes all as failed soon, and none of it outlasts the
// cut.
func TestCutOffHost(t *testing.T) {
	const n, lone = 70, 3
	s := newSimulation(n, 13)
	s.run(5 * time.Second)
	s.cut = func(a, b int) bool { return a == lone || b == lone }
	own, others := 0, 0
	s.failed = func(_ time.Duration, judge, node int) {
		switch {
		case judge == lone:
			own++
		case node == lone:
			others++
		default:
			t.Errorf("%d fails %d", judge, node)
		}
	}
	s.run(15 * time.Second)
	if own != n-1 || others != n-1 {
		t.Errorf("the lone host fails %d, and %d fail it; want %d", own, others, n-1)
	}
	s.cut = nil
	took, ok := s.until(time.Minute, s.agree)
	t.Logf("whole after %s", took)
	if !ok || took > 15*time.Second {
		t.Errorf("whole %t after %s", ok, took)
	}
}

// TestLiar: a member that says of all others that they failed gets each of them
// to refute it, and can make nobody unable to.
func TestLiar(t *testing.T) {
	const n = 70
	s := newSimulation(n, 17)
	s.run(5 * time.Second)
	lie := func(state State, inc uint64) {
		for i := 1; i < n; i += MaxDeltas {
			var ds []Delta
			for j := i; j < min(i+MaxDeltas, n); j++ {
				ds = append(ds, Delta{Node: nodeName(j), Boot: 1, Inc: inc, State: state, Age: time.Hour})
			}
			for to := 1; to < n; to += 7 {
				s.step(to, Receive{From: nodeName(0), Boot: 1, Msg: Message{Kind: Gossip, Deltas: ds}})
			}
		}
	}
	for k := range 5 {
		lie(Failed, uint64(k))
		lie(Left, uint64(k))
		lie(Suspect, 1<<50)
		lie(Alive, 1<<50)
		s.run(time.Second)
	}
	took, ok := s.until(time.Minute, s.agree)
	var refused uint64
	for _, nd := range s.nodes {
		refused += nd.core.Stats().Refused
		if nd.core.Incarnation() > 100 {
			t.Errorf("an incarnation of %d", nd.core.Incarnation())
		}
	}
	t.Logf("whole %s after the lies, %d refused", took, refused)
	if !ok || took > 20*time.Second || refused == 0 {
		t.Errorf("whole %t after %s, %d refused", ok, took, refused)
	}
}
