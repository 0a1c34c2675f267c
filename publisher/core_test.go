package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

var (
	first  = descriptor.Period{Number: 100, Length: 1440}
	second = descriptor.Period{Number: 101, Length: 1440}
)

func relay(n int) descriptor.Fingerprint { return descriptor.Fingerprint{byte(n >> 8), byte(n)} }

func relays(n ...int) (out []descriptor.Fingerprint) {
	for _, i := range n {
		out = append(out, relay(i))
	}
	return out
}

// twoTargets are eight directories each, of which two are the same; clients
// ask three of the four of each replica.
func twoTargets() []Target {
	return []Target{
		{Period: first, Store: relays(1, 2, 3, 4, 5, 6, 7, 8), Fetch: relays(1, 2, 3, 5, 6, 7), Fetched: true},
		{Period: second, Store: relays(7, 8, 9, 10, 11, 12, 13, 14), Fetch: relays(7, 8, 9, 11, 12, 13)},
	}
}

// world plays the directories and the builder of one or more cores. A revision
// is term<<40 | counter.
type world struct {
	t     *testing.T
	core  *Core
	now   time.Duration
	queue []pending
	// stored is what directories have, by period.
	stored  map[descriptor.Period]map[descriptor.Fingerprint]uint64
	dead    map[descriptor.Fingerprint]bool
	forgets map[descriptor.Fingerprint]bool // says stored and loses it
	mute    map[descriptor.Fingerprint]bool // stores it and does not answer in time
	broken  bool                            // builds fail
	term    cluster.Term
	counter uint64
	log     []string // actions but for posts, with their time
	posts   map[uint64][]Post
	out     map[descriptor.Fingerprint]bool
	rev     map[uint64][]uint64
	period  map[uint64][]descriptor.Period
	latency time.Duration
}

type pending struct {
	at time.Duration
	e  Event
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, core: NewCore(DefaultTiming(), 1, nil), term: 1, latency: 200 * time.Millisecond,
		stored: map[descriptor.Period]map[descriptor.Fingerprint]uint64{}, dead: map[descriptor.Fingerprint]bool{},
		forgets: map[descriptor.Fingerprint]bool{}, mute: map[descriptor.Fingerprint]bool{}, posts: map[uint64][]Post{}, out: map[descriptor.Fingerprint]bool{},
		rev: map[uint64][]uint64{}, period: map[uint64][]descriptor.Period{},
	}
}

func (w *world) has(p descriptor.Period, f descriptor.Fingerprint) uint64 { return w.stored[p][f] }

func (w *world) put(p descriptor.Period, f descriptor.Fingerprint, r uint64) {
	if w.stored[p] == nil {
		w.stored[p] = map[descriptor.Fingerprint]uint64{}
	}
	w.stored[p][f] = r
}

func (w *world) later(d time.Duration, e Event) { w.queue = append(w.queue, pending{w.now + d, e}) }

func (w *world) tell(e Event) {
	for _, a := range w.core.Step(e, w.now) {
		w.carryOut(a)
	}
}

func (w *world) carryOut(a Action) {
	if _, ok := a.(Post); !ok {
		w.log = append(w.log, fmt.Sprintf("%v %s", w.now.Truncate(time.Millisecond), a))
	}
	switch a := a.(type) {
	case Build:
		b := Built{Version: a.Version}
		if !w.broken {
			for _, floor := range a.Floors {
				w.counter++
				b.Revisions = append(b.Revisions, max(uint64(a.Term)<<40+w.counter, floor+1))
			}
			w.rev[a.Version], w.period[a.Version] = b.Revisions, a.Periods
		}
		w.later(2*time.Millisecond, b)
	case Post:
		if w.out[a.Dir] {
			w.t.Fatalf("%v: two posts at %s", w.now, a.Dir)
		}
		w.out[a.Dir] = true
		w.posts[a.Version] = append(w.posts[a.Version], a)
		r := w.rev[a.Version][slices.Index(w.period[a.Version], a.Period)]
		switch {
		case w.dead[a.Dir]:
			w.later(15*time.Second, Answered{a, Failed})
		case w.has(a.Period, a.Dir) >= r:
			w.later(w.latency, Answered{a, Rejected})
		case w.mute[a.Dir]:
			w.put(a.Period, a.Dir, r)
			w.later(15*time.Second, Answered{a, Failed})
		default:
			if !w.forgets[a.Dir] {
				w.put(a.Period, a.Dir, r)
			}
			w.later(w.latency, Answered{a, Stored})
		}
	case Fetch:
		if w.out[a.Dir] {
			w.t.Fatalf("%v: a fetch beside a post at %s", w.now, a.Dir)
		}
		w.out[a.Dir] = true
		r := w.has(a.Period, a.Dir)
		term := cluster.Term(r >> 40)
		w.later(w.latency, Seen{Fetch: a, OK: r > 0 && !w.dead[a.Dir], Revision: r, Term: term, Known: term < 1000})
	}
}

// run passes time, calling Step no more often than the core asks for.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for n := 0; ; n++ {
		if n > 100_000 {
			w.t.Fatalf("%v: the core does not rest", w.now)
		}
		at, why := end, Event(nil)
		if dl, ok := w.core.Deadline(); ok && dl < at {
			at, why = max(dl, w.now), Tick{}
		}
		k := -1
		for i, p := range w.queue {
			if p.at <= at && (k < 0 || p.at < w.queue[k].at) {
				k = i
			}
		}
		if k >= 0 {
			at, why = w.queue[k].at, w.queue[k].e
			w.queue = slices.Delete(w.queue, k, k+1)
		}
		if why == nil {
			w.now = end
			return
		}
		w.now = max(at, w.now)
		switch a := why.(type) {
		case Answered:
			delete(w.out, a.Dir)
		case Seen:
			delete(w.out, a.Dir)
		}
		w.tell(why)
	}
}

// putAll has all directories store a revision of both descriptors.
func (w *world) putAll(revision uint64) {
	for _, t := range twoTargets() {
		for _, f := range t.Store {
			w.put(t.Period, f, revision)
		}
	}
}

func (w *world) begin() *world {
	w.tell(SetTargets{twoTargets()})
	w.tell(SetContent{[32]byte{1}})
	w.tell(SetDuty{true, w.term, false})
	return w
}

func (w *world) count(word string) (n int) {
	for _, l := range w.log {
		if strings.Contains(l, " "+word+" ") || strings.Contains(l, " "+word+":") {
			n++
		}
	}
	return n
}

// want checks what directories have of the newest version.
func (w *world) want(version uint64) {
	w.t.Helper()
	for i, t := range twoTargets() {
		for _, f := range t.Store {
			if !w.dead[f] && w.has(t.Period, f) != w.rev[version][i] {
				w.t.Errorf("%v: %s has revision %d of %s, want %d", w.now, f, w.has(t.Period, f), t.Period, w.rev[version][i])
			}
		}
	}
	if w.t.Failed() {
		w.t.Log(strings.Join(w.log, "\n"))
	}
}

func TestFirstPublication(t *testing.T) {
	w := newWorld(t).begin()
	w.run(time.Second)
	w.want(1)
	// 0.5 s to gather changes, then both at once, but for the directories that
	// have to take both: those answer first.
	if len(w.posts[1]) != 16 || w.count("published") != 2 || w.count("build") != 1 {
		t.Errorf("%d posts; %v", len(w.posts[1]), w.log)
	}
	w.run(45 * time.Minute)
	if w.count("build") != 1 {
		t.Errorf("published again for no reason: %v", w.log)
	}
}

func TestNothingWithoutDutyContentOrTargets(t *testing.T) {
	events := []Event{SetTargets{twoTargets()}, SetContent{[32]byte{1}}, SetDuty{true, 1, false}}
	for skip := range events {
		w := newWorld(t)
		for i, e := range events {
			if i != skip {
				w.tell(e)
			}
		}
		w.run(3 * time.Hour)
		if len(w.log) != 0 {
			t.Errorf("without %s: %v", events[skip], w.log)
		}
		w.tell(events[skip])
		w.run(time.Second)
		w.want(1)
	}
}

func TestChangesAreGathered(t *testing.T) {
	w := newWorld(t).begin()
	w.run(10 * time.Second)
	for i := range 4 { // within 0.4 s
		w.tell(SetContent{[32]byte{2, byte(i)}})
		w.run(100 * time.Millisecond)
	}
	w.run(time.Second)
	w.want(2)
	w.run(30 * time.Second)
	for i := range 4 { // as hosts that replace their points one after the other
		w.tell(SetContent{[32]byte{4, byte(i)}})
		w.run(time.Second)
		w.want(uint64(3 + i))
	}
	w.run(10 * time.Second)
	before := w.count("build")
	for i := range 300 { // for 30 s, of which the first two are paid for
		w.tell(SetContent{[32]byte{3, byte(i), byte(i >> 8)}})
		w.run(100 * time.Millisecond)
	}
	w.run(10 * time.Second)
	if n := w.count("build") - before; n < 2+6 || n > 2+7 {
		t.Errorf("%d descriptors, want one per 5 s: %v", n, w.log)
	}
	w.want(w.core.pace.version)
	w.tell(SetContent{w.core.content})
	w.tell(SetTargets{twoTargets()})
	w.tell(SetDuty{true, 1, false})
	builds := w.count("build")
	if w.run(10 * time.Second); w.count("build") != builds {
		t.Error("what is the same is no change")
	}
}

// TestAgain: new descriptors are made at once for who asks, also after builds that
// failed, but keep their distance; without the duty nothing happens.
func TestAgain(t *testing.T) {
	w := newWorld(t).begin()
	w.run(time.Minute)
	w.tell(Again{})
	w.run(time.Second)
	w.want(2)
	for range 30 {
		w.tell(Again{})
		w.run(time.Second)
	}
	if n := w.count("build"); n < 5 || n > 2+4+6 {
		t.Errorf("%d descriptors for one who asks each second for 30 s", n)
	}
	w.broken = true
	w.tell(SetContent{[32]byte{2}})
	w.run(30 * time.Minute)
	w.broken = false
	before := w.count("build")
	w.tell(Again{})
	w.run(time.Second)
	w.want(uint64(before + 1))
	w.tell(SetDuty{false, 1, false})
	w.tell(Again{})
	w.run(time.Hour)
	if n := w.count("build"); n != before+1 {
		t.Errorf("%d descriptors without the duty", n-before-1)
	}
}

func TestRefresh(t *testing.T) {
	w := newWorld(t).begin()
	w.run(48 * time.Hour)
	n := w.count("build")
	if n < 42 || n > 58 {
		t.Errorf("%d descriptors in 48 h", n)
	}
	var last time.Duration
	gaps := map[time.Duration]bool{}
	for _, l := range w.log {
		at, rest, _ := strings.Cut(l, " ")
		if !strings.HasPrefix(rest, "build") {
			continue
		}
		d, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		if gap := d - last; last > time.Second && (gap < 50*time.Minute || gap > 70*time.Minute+time.Second) {
			t.Errorf("after %v", gap)
		} else {
			gaps[gap.Truncate(time.Minute)] = true
		}
		last = d
	}
	if len(gaps) < 5 {
		t.Errorf("too regular: %v", gaps)
	}
}

func TestDeadDirectoryIsRetried(t *testing.T) {
	w := newWorld(t).begin()
	w.dead[relay(2)], w.dead[relay(7)] = true, true // 7 is in both
	w.run(2 * time.Second)
	// 7 holds only what must go to itself.
	if w.count("published") != 2 || w.core.targets[0].told != true {
		t.Errorf("%v", w.log)
	}
	w.run(20 * time.Minute)
	tries := 0
	for _, p := range w.posts[1] {
		if p.Dir == relay(2) {
			tries++
		}
	}
	// 5, 10, 20, ... 300 s, and 15 s each to find out.
	if tries < 6 || tries > 12 {
		t.Errorf("%d tries in 20 min", tries)
	}
	clear(w.dead)
	w.run(6 * time.Minute)
	w.want(1)
}

func TestAllDirectoriesDead(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.dead[relay(i)] = true
	}
	w.begin()
	w.run(time.Minute)
	if w.count("unpublished") != 2 || w.count("published") != 0 {
		t.Errorf("%v", w.log)
	}
	clear(w.dead)
	w.run(6 * time.Minute)
	w.want(1)
	if w.count("published") != 2 || w.count("unpublished") != 2 {
		t.Errorf("%v", w.log)
	}
}

// TestLateDirectories: what comes to directories without an answer in time is
// there, and the next try is rejected for it.
func TestLateDirectories(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.mute[relay(i)] = true
	}
	w.begin()
	w.run(time.Minute)
	if w.count("published") != 2 || w.count("build") != 1 {
		t.Errorf("%v", w.log)
	}
	w.want(1)
	posts := len(w.posts[1])
	w.run(30 * time.Minute)
	if len(w.posts[1]) != posts {
		t.Errorf("%d posts, and %d later", posts, len(w.posts[1]))
	}
}

func TestLyingDirectory(t *testing.T) {
	w := newWorld(t)
	for _, f := range twoTargets()[0].Fetch {
		w.forgets[f] = true
	}
	w.begin()
	w.run(2 * time.Second)
	if w.count("published") != 2 || w.count("fetch") != 1 {
		t.Errorf("%v", w.log)
	}
	clear(w.forgets)
	w.run(10 * time.Second)
	if got := w.has(first, w.core.targets[0].Fetch[0]) + w.has(first, w.core.targets[0].Fetch[1]); w.count("fetch") < 2 {
		t.Errorf("not posted again to who lost it: %d %v", got, w.log)
	}
}

func TestBuildFails(t *testing.T) {
	w := newWorld(t)
	w.broken = true
	w.begin()
	w.run(time.Hour)
	if n := w.count("build"); n < 10 || n > 30 {
		t.Errorf("%d tries in an hour", n)
	}
	w.broken = false
	w.run(6 * time.Minute)
	w.want(w.core.pace.version)
}

func TestNewTargets(t *testing.T) {
	w := newWorld(t).begin()
	w.run(10 * time.Second)
	// The second descriptor becomes the first one, as after each new shared
	// random value.
	next := descriptor.Period{Number: 102, Length: 1440}
	old := twoTargets()[1]
	old.Fetched = true
	w.tell(SetTargets{[]Target{old, {Period: next, Store: relays(20, 21, 22, 23), Fetch: relays(20, 21)}}})
	w.run(2 * time.Second)
	for i, p := range []descriptor.Period{second, next} {
		for _, f := range w.core.targets[i].Store {
			if w.has(p, f) != w.rev[2][i] {
				t.Errorf("%s lacks %s", f, p)
			}
		}
	}
}

func TestDutyEnds(t *testing.T) {
	w := newWorld(t).begin()
	w.run(510 * time.Millisecond) // posted, not answered
	w.tell(SetDuty{false, 1, false})
	n := len(w.posts[1])
	w.tell(SetContent{[32]byte{9}})
	w.run(5 * time.Hour)
	if len(w.posts[1]) != n || w.count("build") != 1 || w.count("fetch") != 0 {
		t.Errorf("goes on without duty: %v", w.log)
	}
	w.tell(SetDuty{true, 3, false})
	w.run(time.Second)
	w.want(2)
	if w.has(first, relay(1))>>40 != 3 {
		t.Error("not under the new term")
	}
	w.tell(SetDuty{true, 4, false})
	w.run(10 * time.Second)
	w.want(3)
	if w.has(first, relay(1))>>40 != 4 {
		t.Error("a new term does not publish")
	}
}

// TestOldPublisherIsFenced: it comes back after a successor published, is
// refused, and neither goes above nor tries on.
func TestOldPublisherIsFenced(t *testing.T) {
	w := newWorld(t).begin()
	w.run(10 * time.Second)
	later := func(n uint64) { w.putAll(2<<40 + n) }
	later(1)
	w.tell(SetContent{[32]byte{7}})
	w.run(10 * time.Second)
	if w.count("fenced") != 1 || w.has(first, relay(1)) != 2<<40+1 {
		t.Fatalf("%v", w.log)
	}
	builds := w.count("build")
	// The successor publishes each hour; this one stays behind, for a day.
	for i := range 24 {
		w.run(time.Hour)
		later(uint64(i + 2))
		w.tell(SetContent{[32]byte{8, byte(i)}})
	}
	if w.count("build") != builds || w.count("foreign") != 0 {
		t.Fatalf("%d descriptors behind the fence: %v", w.count("build")-builds, w.log)
	}
	// Then it dies. Its last descriptor lives for 3 hours.
	w.run(3 * time.Hour)
	if w.has(first, relay(1)) <= 2<<40+25 || w.count("build") == builds {
		t.Errorf("the address ends: %v", w.log)
	}
}

// TestLostClusterIsOvertaken: a cluster that was built anew and imported its key
// finds descriptors of a far later term. Its holder waits for as long as a lease
// may last. What directories have for the other period ends before clients ask.
func TestLostClusterIsOvertaken(t *testing.T) {
	w := newWorld(t)
	w.putAll(50 << 40)
	w.begin()
	w.tell(SetDuty{true, w.term, true})
	w.run(time.Minute)
	if w.count("fenced") != 1 || w.has(first, relay(1)) != 50<<40 {
		t.Fatalf("%v", w.log)
	}
	w.run(2 * time.Minute)
	for _, f := range twoTargets()[0].Store {
		if w.has(first, f) <= 50<<40 || w.count("fenced") != 1 {
			t.Fatalf("%v", w.log)
		}
	}
}

func TestFenceFallsWithANewTerm(t *testing.T) {
	w := newWorld(t)
	w.putAll(5 << 40)
	w.begin()
	w.run(5 * time.Second)
	if w.count("fenced") != 1 {
		t.Fatalf("%v", w.log)
	}
	w.tell(SetDuty{true, 6, false})
	w.run(6 * time.Second)
	w.want(w.core.pace.version)
}

// TestForeignRevision: a key that is used elsewhere, or an old value that was
// forgotten, is overtaken at once and told once.
func TestForeignRevision(t *testing.T) {
	for name, c := range map[string]struct {
		revision uint64
		foreign  int
	}{"foreign": {5000 << 40, 1}, "own, forgotten": {1<<40 + 900, 0}} {
		w := newWorld(t)
		for _, tg := range twoTargets() {
			for _, f := range tg.Store {
				w.put(tg.Period, f, c.revision)
			}
		}
		w.begin()
		w.run(8 * time.Second)
		if w.has(first, relay(1)) != c.revision+1 || w.count("foreign") != c.foreign || w.count("fenced") != 0 {
			t.Errorf("%s: %v", name, w.log)
		}
	}
}

// FuzzCore sends any order of events: never two posts at one directory, none
// without duty, and always at rest.
func FuzzCore(f *testing.F) {
	f.Add([]byte{0, 1, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			return
		}
		w := newWorld(t)
		for i, b := range script {
			switch b % 12 {
			case 0:
				w.begin()
			case 1:
				w.tell(SetContent{[32]byte{byte(i)}})
			case 2:
				w.tell(SetDuty{b&16 != 0, cluster.Term(b >> 5), i%2 == 0})
			case 3:
				w.tell(SetTargets{twoTargets()[:1+b>>7]})
			case 4:
				w.dead[relay(int(b)>>4)] = !w.dead[relay(int(b)>>4)]
			case 5:
				w.put(first, relay(int(b)>>4), uint64(b)<<40)
			case 6:
				w.broken = !w.broken
			case 7:
				w.run(time.Duration(b) * time.Minute)
			case 8:
				w.tell(SetTargets{})
			default:
				w.run(time.Duration(b) * 50 * time.Millisecond)
			}
			if !w.core.publishing {
				n := len(w.posts[w.core.pace.version])
				w.tell(Tick{})
				if len(w.posts[w.core.pace.version]) != n {
					t.Fatal("posts without duty")
				}
			}
		}
	})
}
