package coord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// TestForgedVoterConfigs: a lease message whose record no holder signed is
// refused whole, counted, and changes nothing.
func TestForgedVoterConfigs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		a, b, _ := w.three()
		defer w.stopAll()
		good := a.svc.View().Lease.Config
		if len(good.Proof) != ed25519.SignatureSize || good.Issuer != a.node {
			t.Fatalf("record %+v", good)
		}
		forge := func(f func(*cluster.VoterConfig)) cluster.VoterConfig {
			c := good
			c.Voters, c.Proof = slices.Clone(c.Voters), slices.Clone(c.Proof)
			f(&c)
			return c
		}
		sign := func(c *cluster.VoterConfig, h *host) {
			c.Proof = ed25519.Sign(h.key, election.ConfigBytes(w.verify.Cluster, *c))
		}
		stranger := &host{key: seedKey("stranger")}
		cases := map[string]cluster.VoterConfig{
			"no proof":      forge(func(c *cluster.VoterConfig) { c.Proof = nil }),
			"no issuer":     forge(func(c *cluster.VoterConfig) { c.Issuer = "" }),
			"other issuer":  forge(func(c *cluster.VoterConfig) { c.Issuer = b.node }),
			"stranger":      forge(func(c *cluster.VoterConfig) { c.Issuer = "stranger"; sign(c, stranger) }),
			"wrong key":     forge(func(c *cluster.VoterConfig) { c.Term = 900; sign(c, b) }),
			"raised term":   forge(func(c *cluster.VoterConfig) { c.Term = 900 }),
			"raised epoch":  forge(func(c *cluster.VoterConfig) { c.Epoch++ }),
			"fewer voters":  forge(func(c *cluster.VoterConfig) { c.Voters = []cluster.NodeID{b.node} }),
			"target":        forge(func(c *cluster.VoterConfig) { c.Target = []cluster.NodeID{b.node} }),
			"mode":          forge(func(c *cluster.VoterConfig) { c.Mode = cluster.ModeAvailable }),
			"setting":       forge(func(c *cluster.VoterConfig) { c.Setting = cluster.ModeAvailable }),
			"pinned":        forge(func(c *cluster.VoterConfig) { c.Pinned = true }),
			"slots":         forge(func(c *cluster.VoterConfig) { c.Slots = []int{1, 2, 3} }),
			"spent":         forge(func(c *cluster.VoterConfig) { c.Spent = 4 }),
			"other cluster": forge(func(c *cluster.VoterConfig) { c.Proof = ed25519.Sign(a.key, c.SignedBytes()) }),
		}
		b.stop() // the test speaks in its place
		synctest.Wait()
		seq := uint64(1 << 30)
		for name, c := range cases {
			before, votes := a.rejected("config_proof"), a.svc.View().Lease.Vote
			seq++
			data := seal(t, b.key, wire.Header{
				Node: b.node, Time: time.Now().Unix(), Type: wire.TypeLeaseClaim, To: a.node, Boot: b.boot, Seq: seq,
			}, claim(t, b, 1000, c))
			w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), data)
			synctest.Wait()
			if got := a.rejected("config_proof") - before; got != 1 {
				t.Errorf("%s: counted %d times, rejected %v", name, got, a.svc.View().Rejected)
			}
			if after := a.svc.View().Lease.Vote; fmt.Sprint(after) != fmt.Sprint(votes) {
				t.Errorf("%s: vote %+v became %+v", name, votes, after)
			}
		}
		// A record of a holder that is no longer a member is good all the same.
		if err := a.svc.AddRecords(t.Context(), member.Records{Revokes: []member.Signed{w.revoke(b, true)}}); err != nil {
			t.Fatal(err)
		}
		old := forge(func(c *cluster.VoterConfig) { c.Issuer = b.node; sign(c, b) })
		var err error
		if e := a.svc.loop.call(t.Context(), func() { err = a.svc.Lease.elector.CheckConfig("x", old) }); e != nil || err != nil {
			t.Errorf("record of one that left: %v, %v", e, err)
		}
	})
}

// TestLostVoteRecord: a voter whose vote file is gone abstains, tells so, and
// is a voter again after the holder took it out and in.
func TestLostVoteRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		term := a.svc.View().Lease.Term
		epoch := a.svc.View().Lease.Config.Epoch
		c.stop()
		c.store.mu.Lock()
		c.store.found, c.store.vote = false, lease.VoteRecord{}
		c.store.mu.Unlock()
		c.start()
		if st := c.svc.View().Lease; st.Abstaining == "" || c.svc.VoterTerm() <= 1<<53 {
			t.Fatalf("abstains %q, acknowledges from term %d", st.Abstaining, c.svc.VoterTerm())
		}
		if got := c.gauge("skein_lease_abstaining"); got != 1 {
			t.Errorf("metric %v", got)
		}
		seen := false
		w.until("c is a voter again", time.Minute, func() bool {
			l := a.svc.View().Lease
			seen = seen || !l.Config.Has(c.node)
			return l.Config.Epoch > epoch && w.voters(3) && c.svc.View().Lease.Abstaining == "" && len(l.Config.Target) == 0
		})
		if !seen {
			t.Error("c was never taken out")
		}
		if got := w.holder(); got != a.node || a.svc.View().Lease.Term != term {
			t.Errorf("%s holds term %d, it was %s with %d", got, a.svc.View().Lease.Term, a.node, term)
		}
		if c.gauge("skein_lease_abstaining") != 0 || c.svc.VoterTerm() > term {
			t.Error("c still abstains")
		}
		// The daemon can find the same out while it runs.
		c.svc.VoteLost("its log was rolled back")
		w.until("c abstains", time.Second, func() bool { return c.svc.View().Lease.Abstaining != "" })
		c.store.mu.Lock()
		lost := c.store.vote.Lost
		c.store.mu.Unlock()
		if lost != "its log was rolled back" {
			t.Errorf("on disk: %q", lost)
		}
		w.until("and votes again", time.Minute, func() bool { return c.svc.View().Lease.Abstaining == "" && w.voters(3) })
		_ = b
	})
}

// TestForcedVoterAmongLost: all lost their votes and say so, and one was made
// the only voter. It takes the others in again.
func TestForcedVoterAmongLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileFast, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		a.knows(b, c)
		b.knows(c)
		c.knows(b)
		for _, h := range []*host{a, b, c} {
			h.stop()
			h.store.mu.Lock()
			h.store.found, h.store.vote = false, lease.VoteRecord{}
			h.store.mu.Unlock()
		}
		for _, h := range []*host{a, b, c} {
			h.start()
		}
		w.until("all abstain and see each other", time.Minute, func() bool {
			return w.allAlive() && a.svc.View().Lease.Abstaining != "" && c.svc.View().Lease.Abstaining != ""
		})
		if m, ok := a.svc.View().Member(c.node); !ok || !m.Abstains {
			t.Errorf("a does not know that c abstains: %+v", m)
		}
		b.stop()
		b.store.mu.Lock()
		b.store.found, b.store.vote = true, lease.VoteRecord{PromisedTerm: 1 << 20, Config: cluster.VoterConfig{
			Epoch: 1, Term: 1 << 20, Voters: []cluster.NodeID{b.node}, Mode: cluster.ModeSingle, Issuer: b.node,
		}}
		b.store.mu.Unlock()
		b.start()
		w.until("all vote again", time.Minute, func() bool {
			return w.voters(3) && a.svc.View().Lease.Abstaining == "" && c.svc.View().Lease.Abstaining == "" && w.holder() != ""
		})
	})
}

// TestSetVoters: the wish is agreed to before the call returns, and on another
// host than the holder it is refused.
func TestSetVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		two := lease.SetVoters{Voters: []cluster.NodeID{a.node, b.node}, Mode: cluster.ModeQuorum}
		if err := b.svc.SetVoters(ctx, two); !errors.Is(err, ErrNotHolder) {
			t.Errorf("on a standby: %v", err)
		}
		if err := a.svc.SetVoters(ctx, lease.SetVoters{Mode: "x"}); !errors.Is(err, lease.ErrVoters) {
			t.Errorf("nonsense: %v", err)
		}
		if err := a.svc.SetVoters(ctx, two); err != nil {
			t.Fatal(err)
		}
		if l := b.svc.View().Lease; l.TargetAuto || !slices.Equal(l.Target, two.Voters) {
			t.Errorf("b knows of target %v auto %t", l.Target, l.TargetAuto)
		}
		voting := func() bool {
			l := a.svc.View().Lease
			return slices.Equal(l.Config.Voters, two.Voters) && !l.Pending && len(l.Acks) == 2
		}
		w.until("two voters", 10*time.Second, voting)
		three := lease.SetVoters{Voters: []cluster.NodeID{a.node, b.node, c.node}}
		if err := a.svc.SetVoters(ctx, three); err != nil {
			t.Fatal(err)
		}
		// Two at once: the later builds on the earlier.
		var both sync.WaitGroup
		for _, out := range []cluster.NodeID{b.node, c.node} {
			both.Go(func() {
				err := a.svc.ChangeVoters(ctx, func(v *View) (lease.SetVoters, error) {
					without := func(n cluster.NodeID) bool { return n == out }
					return lease.SetVoters{Voters: slices.DeleteFunc(slices.Clone(v.Lease.Target), without)}, nil
				})
				if err != nil {
					t.Errorf("without %s: %v", out, err)
				}
			})
		}
		both.Wait()
		if got := a.svc.View().Lease.Target; !slices.Equal(got, []cluster.NodeID{a.node}) {
			t.Errorf("one of two changes at once was lost: %v", got)
		}
		if err := a.svc.SetVoters(ctx, two); err != nil {
			t.Fatal(err)
		}
		w.until("two voters again", 10*time.Second, voting)
		// Cut off, the holder cannot promise that anybody will follow.
		w.net.Cut(a.addr, b.addr)
		w.net.Cut(a.addr, c.addr)
		if err := a.svc.SetVoters(ctx, lease.SetVoters{Auto: true}); err == nil {
			t.Error("agreed to by nobody")
		}
	})
}

// TestOldVoteFile: a vote file put back from a backup is noticed.
func TestOldVoteFile(t *testing.T) {
	dir := t.TempDir()
	s := store.New(dir, member.ClusterID{1}, "host-a")
	name := filepath.Join(dir, "vote.json")
	var backup []byte
	for term := range cluster.Term(12) {
		if err := s.SaveVote(lease.VoteRecord{PromisedTerm: term + 1}); err != nil {
			t.Fatal(err)
		}
		if term == 8 {
			var err error
			if backup, err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := store.New(dir, member.ClusterID{1}, "host-a")
	if v, found, err := again.LoadVote(); err != nil || !found || v.PromisedTerm != 12 {
		t.Fatalf("%+v, %t, %v", v, found, err)
	}
	if err := os.WriteFile(name, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.LoadVote(); !errors.Is(err, election.ErrVoteLost) {
		t.Fatalf("old file: %v", err)
	}
	// What is saved from then on is good.
	if err := again.SaveVote(lease.VoteRecord{Lost: "old"}); err != nil {
		t.Fatal(err)
	}
	if v, _, err := store.New(dir, member.ClusterID{1}, "host-a").LoadVote(); err != nil || v.Lost != "old" {
		t.Fatalf("%+v, %v", v, err)
	}
	// A count that is torn or missing accuses nobody.
	for _, bad := range []string{"", "9", "99999", "x\n", strings.Repeat("9", 40)} {
		if err := os.WriteFile(filepath.Join(dir, "vote.count"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.LoadVote(); err != nil {
			t.Errorf("count %q: %v", bad, err)
		}
	}
}

// TestLongestLeaseMessageFits: with the longest names and as much as a record
// can hold, a message fits a datagram.
func TestLongestLeaseMessageFits(t *testing.T) {
	id := func(i int) cluster.NodeID {
		return cluster.NodeID(fmt.Sprintf("%02d-%s", i, strings.Repeat("x", cluster.MaxNodeIDLen-3)))
	}
	c := cluster.VoterConfig{
		Epoch: 1 << 40, Term: wire.MaxNumber, Mode: cluster.ModeAvailable, Setting: cluster.ModeAvailable, Pinned: true, Spent: 1<<64 - 1,
		Issuer: id(1), Proof: bytes.Repeat([]byte{1}, 64),
	}
	for i := range cluster.MaxVoters {
		c.Voters, c.Slots = append(c.Voters, id(i)), append(c.Slots, 57+i)
		if i > 0 {
			c.Target = append(c.Target, id(i))
		}
	}
	c.Target = append(c.Target, id(50)) // one for one
	m := election.Message{Profile: cluster.ProfileClassic, Message: lease.Message{
		Phase: lease.RenewReply, Priority: 1<<32 - 1, Term: wire.MaxNumber, Round: 1 << 40, Reason: "voter configuration is newer", Promised: wire.MaxNumber,
		Holder: id(2), Config: c,
	}}
	size := func() int {
		payload, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return len(payload) + 350 // the envelope
	}
	t.Logf("%d bytes", size())
	if size() > wire.MaxDatagram {
		t.Errorf("%d bytes", size())
	}
}
