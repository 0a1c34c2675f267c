package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestJobPolicy changes each field to what it cannot be.
func TestJobPolicy(t *testing.T) {
	many := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("u%05d", i)
		}
		return out
	}
	good := spec()
	good.Policy = Policy{
		Permission: Permission{Access: AccessUser, Users: many(MaxUsers)}, Priority: MaxPriority, Zones: many(MaxZones),
		DeadlineSeconds: MaxDeadline.Seconds(), StuckSeconds: 0.001, HardTimeoutSeconds: 1, GraceSeconds: 1, Losses: MaxLosses,
		Replication: Replication{Policy: CheckAdaptive, Quorum: MaxQuorum, Tolerance: 0.1},
		EarlyStop:   EarlyStop{Metric: "m", RelError: 0.01, MinN: 5}, OnPartial: PartialWait, ChunkAuto: true, ChunkSeconds: 9,
		KeepSeconds: MaxKeep.Seconds(),
	}
	if err := good.WithDefaults().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Policy){
		"access":        func(p *Policy) { p.Permission.Access = "everybody" },
		"no users":      func(p *Policy) { p.Permission.Users = nil },
		"many users":    func(p *Policy) { p.Permission.Users = many(MaxUsers + 1) },
		"user blank":    func(p *Policy) { p.Permission.Users = []string{"a b"} },
		"user long":     func(p *Policy) { p.Permission.Users = []string{strings.Repeat("u", cluster.MaxPrincipal+1)} },
		"user control":  func(p *Policy) { p.Permission.Users = []string{"a\x00"} },
		"public users":  func(p *Policy) { p.Permission.Access = AccessPublic },
		"no groups":     func(p *Policy) { p.Permission = Permission{Access: AccessGroup} },
		"many groups":   func(p *Policy) { p.Permission = Permission{Access: AccessGroup, Groups: many(MaxGroups + 1)} },
		"group name":    func(p *Policy) { p.Permission = Permission{Access: AccessGroup, Groups: []string{"A/B"}} },
		"group empty":   func(p *Policy) { p.Permission = Permission{Access: AccessGroup, Groups: []string{""}} },
		"visitor":       func(p *Policy) { p.Permission.Users = []string{"visitor:1f"} },
		"outside users": func(p *Policy) { p.Permission.Outside = true },
		"owner's group": func(p *Policy) { p.Permission = Permission{Access: AccessOwner, Groups: []string{"g"}} },
		"priority":      func(p *Policy) { p.Priority = MaxPriority + 1 },
		"zones":         func(p *Policy) { p.Zones = many(MaxZones + 1) },
		"zone":          func(p *Policy) { p.Zones = []string{strings.Repeat("z", cluster.MaxZoneName+1)} },
		"deadline":      func(p *Policy) { p.DeadlineSeconds = MaxDeadline.Seconds() + 1 },
		"deadline < 0":  func(p *Policy) { p.DeadlineSeconds = -1 },
		"deadline NaN":  func(p *Policy) { p.DeadlineSeconds = math.NaN() },
		"stuck":         func(p *Policy) { p.StuckSeconds = 1e-9 },
		"hard timeout":  func(p *Policy) { p.HardTimeoutSeconds = math.Inf(1) },
		"grace":         func(p *Policy) { p.GraceSeconds = MaxGrace.Seconds() * 2 },
		"losses":        func(p *Policy) { p.Losses = -1 },
		"losses many":   func(p *Policy) { p.Losses = MaxLosses + 1 },
		"policy":        func(p *Policy) { p.Replication.Policy = "some" },
		"quorum":        func(p *Policy) { p.Replication.Quorum = 1 },
		"tolerance":     func(p *Policy) { p.Replication.Tolerance = 1 },
		"tolerance NaN": func(p *Policy) { p.Replication.Tolerance = math.NaN() },
		"stop metric":   func(p *Policy) { p.EarlyStop.Metric = "" },
		"stop error":    func(p *Policy) { p.EarlyStop.RelError = 1 },
		"stop n":        func(p *Policy) { p.EarlyStop.MinN = math.MaxUint64 },
		"partial":       func(p *Policy) { p.OnPartial = "never" },
		"chunk seconds": func(p *Policy) { p.ChunkSeconds = 1e9 },
		"keep":          func(p *Policy) { p.KeepSeconds = MaxKeep.Seconds() + 1 },
	} {
		s := good
		change(&s.Policy)
		if err := s.WithDefaults().Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v, want ErrSpec", name, err)
		}
	}
}

func TestPolicyDefaults(t *testing.T) {
	var p Policy
	s := Spec{TimeoutSeconds: 60}
	if p.EffectivePriority() != DefaultPriority || p.LossBudget() != DefaultLosses || p.Partial() != PartialFinish || p.Deadline() != 0 ||
		p.Grace() != DefaultGrace || p.Keep() != DefaultKeep || p.ChunkTime() != DefaultChunkTime || s.HardTimeout() != time.Minute {
		t.Error("a field without value is not its default")
	}
	a, b := spec(), spec()
	a.Zones, b.Zones = []string{"x", "y", "x"}, []string{"y", "x"}
	if a.WithDefaults().Fingerprint() != b.WithDefaults().Fingerprint() {
		t.Error("the order of a set is in the fingerprint")
	}
	a.ChunkAuto, b.ChunkAuto, a.Chunk, b.Chunk = true, true, 7, 9
	if a.WithDefaults().Fingerprint() != b.WithDefaults().Fingerprint() {
		t.Error("what the holder chooses is in the fingerprint")
	}
}

// TestPermission decides on exact sets; the owner's own workers may always.
func TestPermission(t *testing.T) {
	member := func(group, who string) bool { return group == "g" && who == "carol" }
	for _, c := range []struct {
		p    Permission
		who  string
		want bool
	}{
		{Permission{}, "bob", true},
		{Permission{Access: AccessPublic}, "", true},
		{Permission{Access: AccessOwner}, "alice", true},
		{Permission{Access: AccessOwner}, "bob", false},
		{Permission{Access: AccessUser, Users: []string{"bob", "dan"}}, "bob", true},
		{Permission{Access: AccessUser, Users: []string{"bob", "dan"}}, "carol", false},
		{Permission{Access: AccessUser, Users: []string{"bob"}}, "alice", true},
		{Permission{Access: AccessGroup, Groups: []string{"f", "g"}}, "carol", true},
		{Permission{Access: AccessGroup, Groups: []string{"f"}}, "carol", false},
		{Permission{Access: "odd"}, "bob", false},
	} {
		if got := c.p.Allows("alice", c.who, member); got != c.want {
			t.Errorf("%+v for %q: %v", c.p, c.who, got)
		}
	}
}

// Workers that no host runs get what names their owner, and public jobs only where
// these say so.
func TestOutsidePermission(t *testing.T) {
	member := func(group, who string) bool { return group == "g" && who == "carol" }
	public := Permission{Access: AccessPublic, Outside: true}
	for _, c := range []struct {
		p    Permission
		who  string
		want bool
	}{
		{Permission{}, "bob", false},
		{Permission{}, "", false},
		{Permission{}, "alice", true},
		{Permission{Access: AccessPublic}, "visitor:1f", false},
		{public, "visitor:1f", true},
		{public, "", true},
		{Permission{Outside: true}, "bob", true},
		{Permission{Access: AccessOwner}, "bob", false},
		{Permission{Access: AccessOwner}, "alice", true},
		{Permission{Access: AccessUser, Users: []string{"bob"}}, "bob", true},
		{Permission{Access: AccessUser, Users: []string{"bob"}}, "visitor:1f", false},
		{Permission{Access: AccessGroup, Groups: []string{"g"}}, "carol", true},
		{Permission{Access: AccessGroup, Groups: []string{"g"}}, "bob", false},
	} {
		if got := c.p.AllowsOutside("alice", c.who, member); got != c.want {
			t.Errorf("%+v for %q: %v", c.p, c.who, got)
		}
	}
	if (Permission{}).AllowsOutside("", "", member) {
		t.Error("a job of nobody goes to a worker of nobody")
	}
	good := spec()
	good.Permission = public
	if err := good.WithDefaults().Validate(); err != nil || good.Permission.IsZero() {
		t.Errorf("%v", err)
	}
	again, err := json.Marshal(spec().WithDefaults())
	if err != nil || strings.Contains(string(again), "outside") {
		t.Errorf("a job that says nothing of it is written %s, %v", again, err)
	}
}

// FuzzJobSpec reads hostile specs: what is accepted is within its bounds, and
// means the same when it is written and read again.
func FuzzJobSpec(f *testing.F) {
	f.Add([]byte(`{"key":"k","iterations":10,"artefact":"` + strings.Repeat("01", 32) + `"}`))
	f.Add([]byte(`{"key":"k","iterations":10,"executor":"exec","program":"render","zones":["b","a","a"],"permission":{"access":"user","users":["uid:1"]},"early_stop":{"metric":"m","rel_error":0.5},"chunk_auto":true}`))
	f.Add([]byte(`{"key":"k","iterations":1e3,"priority":-1,"deadline_seconds":1e400}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Spec
		if json.Unmarshal(b, &s) != nil {
			return
		}
		s = s.WithDefaults()
		if s.Validate() != nil {
			return
		}
		if n := s.Chunks(); n < 1 || n > MaxChunks || s.Deadline() < 0 || s.Keep() <= 0 || s.LossBudget() < 1 || s.HardTimeout() < s.Timeout() {
			t.Fatalf("accepted %+v", s)
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var o Spec
		if err := json.Unmarshal(again, &o); err != nil || !o.Equal(s) || o.WithDefaults().Fingerprint() != s.Fingerprint() {
			t.Fatalf("read again: %v, %+v, was %+v", err, o, s)
		}
	})
}
