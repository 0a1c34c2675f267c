package lease

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expectations in testdata")

// TestScenarios runs the scripts in testdata: each command line is followed
// by the actions that it caused, indented. See testdata/README for the words.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := runScenario(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("%s differs (rewrite with -rewrite); got:\n%s", f, got)
			}
		})
	}
}

type script struct {
	t     *testing.T
	s     State
	now   time.Duration
	round uint64 // of the last request sent
	out   strings.Builder
}

func runScenario(t *testing.T, text string) string {
	sc := &script{t: t}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue
		}
		fmt.Fprintln(&sc.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sc.run(strings.Fields(line))
	}
	return sc.out.String()
}

// words splits "key=value" arguments; a bare word has the value "true".
func words(args []string) map[string]string {
	m := map[string]string{}
	for _, a := range args {
		k, v, ok := strings.Cut(a, "=")
		if !ok {
			v = "true"
		}
		m[k] = v
	}
	return m
}

func num(t *testing.T, s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parseConfig(t *testing.T, w map[string]string) cluster.VoterConfig {
	if w["voters"] == "" {
		return cluster.VoterConfig{}
	}
	c := cluster.VoterConfig{Epoch: 1, Mode: cluster.Mode(w["mode"])}
	for n := range strings.SplitSeq(w["voters"], ",") {
		c.Voters = append(c.Voters, cluster.NodeID(n))
	}
	slices.Sort(c.Voters)
	if w["mode"] == "" {
		c.Mode = cluster.AutoMode(len(c.Voters))
	}
	if e, ok := w["epoch"]; ok {
		a, b, _ := strings.Cut(e, "/")
		c.Term, c.Epoch = cluster.Term(num(t, a)), num(t, b)
	}
	return c
}

func (sc *script) run(f []string) {
	t := sc.t
	if f[0] == "node" {
		w := words(f[2:])
		timing, err := TimingFor(cluster.Profile(w["profile"]))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{
			Self: cluster.NodeID(f[1]), Priority: uint32(num(t, w["priority"])), Witness: w["witness"] != "",
			Timing: timing, ModeSetting: cluster.ModeAuto, Fresh: w["fresh"] != "",
			Vote: VoteRecord{PromisedTerm: cluster.Term(num(t, w["promised"])), PromisedTo: cluster.NodeID(w["to"]), Config: parseConfig(t, w)},
		}
		if s := w["setting"]; s != "" {
			o.ModeSetting = cluster.Mode(s)
		}
		sc.round = 0
		if sc.s, err = New(o, sc.now); err != nil {
			t.Fatal(err)
		}
		return
	}
	if f[0] == "status" {
		st := sc.s.Status()
		fmt.Fprintf(&sc.out, "    %s %s holder=%q term=%d voters=%v mode=%s blocked=%q\n", st.Role, st.Phase, st.Holder, st.Term, st.Config.Voters, st.Config.Mode, st.Blocked)
		return
	}
	at, err := time.ParseDuration(f[0])
	if err != nil {
		t.Fatalf("line %q: %v", strings.Join(f, " "), err)
	}
	if len(f) > 1 && f[1] == "until" {
		sc.until(at)
		return
	}
	if f[1] == "acked" {
		sc.acked(at, cluster.NodeID(f[2]))
		return
	}
	sc.now = at
	sc.step(sc.event(f[1:]))
	fmt.Fprintf(&sc.out, "    deadline %s\n", Deadline(sc.s))
}

// until ticks at every deadline up to at.
func (sc *script) until(at time.Duration) {
	for {
		d := Deadline(sc.s)
		if d > at {
			break
		}
		sc.now = max(d, sc.now+time.Nanosecond)
		sc.step(Tick{})
	}
	sc.now = at
}

// acked ticks up to at with every renewal acknowledged by n, and shows only
// what is not routine.
func (sc *script) acked(at time.Duration, n cluster.NodeID) {
	for Deadline(sc.s) <= at && sc.s.phase == holding {
		sc.now = max(Deadline(sc.s), sc.now+time.Nanosecond)
		var acts []Action
		sc.s, acts = Step(sc.s, Tick{}, sc.now)
		for _, a := range acts {
			if s, ok := a.(Send); ok && s.Msg.Phase == Renew {
				if s.To == n {
					sc.s, _ = Step(sc.s, Receive{From: n, Msg: Message{Phase: RenewReply, Term: s.Msg.Term, Round: s.Msg.Round, Granted: true, Config: s.Msg.Config}}, sc.now)
				}
			} else if _, ok := a.(Extended); !ok {
				fmt.Fprintf(&sc.out, "    %s %s\n", sc.now, a)
			}
		}
	}
	sc.now = at
}

func (sc *script) step(ev Event) {
	var acts []Action
	sc.s, acts = Step(sc.s, ev, sc.now)
	for _, a := range acts {
		if s, ok := a.(Send); ok {
			sc.round = max(sc.round, s.Msg.Round)
			fmt.Fprintf(&sc.out, "    %s %s", sc.now, a)
			if s.Msg.Reason != "" {
				fmt.Fprintf(&sc.out, " reason=%q", s.Msg.Reason)
			}
			if s.Msg.Released != nil {
				fmt.Fprintf(&sc.out, " released=%d->%s", s.Msg.Released.Term, s.Msg.Released.Successor)
			}
			fmt.Fprintln(&sc.out)
			continue
		}
		fmt.Fprintf(&sc.out, "    %s %s\n", sc.now, a)
	}
}

func (sc *script) event(f []string) Event {
	t := sc.t
	w := words(f[1:])
	switch f[0] {
	case "tick":
		return Tick{}
	case "suspended":
		return Suspended{}
	case "ready":
		return TermReady{Term: sc.s.hold.term, Epoch: sc.s.vote.Config.Epoch}
	case "quiesced":
		return Quiesced{Term: sc.s.hold.term}
	case "step_down":
		return StepDown{To: cluster.NodeID(w["to"]), Reason: "asked", Leaving: w["leaving"] != ""}
	case "self_check":
		return SelfCheck{OK: w["ok"] != "", Reason: w["reason"]}
	case "peer":
		return PeerChanged{
			Node: cluster.NodeID(f[1]), Priority: uint32(num(t, w["priority"])), Eligible: w["eligible"] != "",
			Alive: w["alive"] != "", CaughtUp: w["caughtup"] != "", Gone: w["gone"] != "",
			Holds: cluster.Term(num(t, w["holds"])),
		}
	case "recv":
		m := Message{
			Phase: Phase(f[2]), Priority: uint32(num(t, w["priority"])), Term: cluster.Term(num(t, w["term"])),
			Granted: w["granted"] != "", Promised: cluster.Term(num(t, w["promised"])), Config: parseConfig(t, w),
			Holder: cluster.NodeID(w["holder"]), Round: sc.round,
		}
		if w["config"] == "same" {
			m.Config = sc.s.vote.Config
		}
		if r := w["released"]; r != "" {
			a, b, _ := strings.Cut(r, "/")
			term, succ, _ := strings.Cut(b, "/")
			m.Released = &Release{Holder: cluster.NodeID(a), Term: cluster.Term(num(t, term)), Successor: cluster.NodeID(succ)}
		}
		return Receive{From: cluster.NodeID(f[1]), Msg: m}
	}
	t.Fatalf("unknown event %q", f[0])
	return nil
}
