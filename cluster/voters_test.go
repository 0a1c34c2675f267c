package cluster

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func fullConfig() VoterConfig {
	return VoterConfig{
		Epoch: 9, Term: 130, Voters: []NodeID{"a", "b", "c"}, Mode: ModeAvailable, Setting: ModeAvailable, Pinned: true,
		Target: []NodeID{"a", "c", "d"}, Slots: []int{0, 1, 63}, Spent: 1<<63 | 4, Issuer: "b", Proof: bytes.Repeat([]byte{7}, 64),
	}
}

func TestVoterConfigJSON(t *testing.T) {
	for _, c := range []VoterConfig{
		{},
		{Epoch: 1, Voters: []NodeID{"a"}, Mode: ModeSingle},
		fullConfig(),
		{Epoch: 1, Voters: []NodeID{"a", "b"}, Mode: ModeQuorum, Target: []NodeID{"a"}},
		{Epoch: 1, Voters: []NodeID{"a"}, Mode: ModeQuorum, Target: []NodeID{"x", "y"}},
	} {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got VoterConfig
		if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, %v, want %+v", b, got, err, c)
		}
	}
	for _, bad := range []string{
		`{"voters":["a"],"leave":[0]}`, `{"voters":["a"],"join":["a","b","c","d","e","f","g","h"]}`, `{"leave":["x"]}`, `[]`,
	} {
		var c VoterConfig
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s became %+v", bad, c)
		}
	}
}

func FuzzVoterConfigJSON(f *testing.F) {
	b, err := json.Marshal(fullConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c VoterConfig
		if json.Unmarshal(data, &c) != nil || c.Validate() != nil {
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var again VoterConfig
		if err := json.Unmarshal(b, &again); err != nil || again.Validate() != nil || !bytes.Equal(again.SignedBytes(), normal(c).SignedBytes()) {
			t.Fatalf("%+v became %+v: %v", c, again, err)
		}
	})
}

// normal is c without a target that says nothing.
func normal(c VoterConfig) VoterConfig {
	if reflect.DeepEqual(c.Target, c.Voters) {
		c.Target = nil
	}
	return c
}

// TestSignedBytesCoverAll: no field of a record can change without its proof.
func TestSignedBytesCoverAll(t *testing.T) {
	base := fullConfig()
	for name, change := range map[string]func(*VoterConfig){
		"epoch": func(c *VoterConfig) { c.Epoch++ }, "term": func(c *VoterConfig) { c.Term++ },
		"voters": func(c *VoterConfig) { c.Voters = []NodeID{"a", "bc"} }, "mode": func(c *VoterConfig) { c.Mode = ModeQuorum },
		"setting": func(c *VoterConfig) { c.Setting = "" }, "pinned": func(c *VoterConfig) { c.Pinned = false },
		"target": func(c *VoterConfig) { c.Target = nil }, "slots": func(c *VoterConfig) { c.Slots = []int{0, 1, 62} },
		"spent": func(c *VoterConfig) { c.Spent = 4 }, "issuer": func(c *VoterConfig) { c.Issuer = "a" },
	} {
		c := fullConfig()
		change(&c)
		if bytes.Equal(c.SignedBytes(), base.SignedBytes()) {
			t.Errorf("%s is not signed", name)
		}
	}
	other := fullConfig()
	other.Proof = nil
	if !bytes.Equal(other.SignedBytes(), base.SignedBytes()) {
		t.Error("the proof is part of what it signs")
	}
	if n := reflect.TypeFor[VoterConfig]().NumField(); n != 11 {
		t.Errorf("%d fields: is the new one signed?", n)
	}
}

func TestVoterConfigRest(t *testing.T) {
	if err := fullConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*VoterConfig){
		"setting": func(c *VoterConfig) { c.Setting = ModeSingle }, "slots": func(c *VoterConfig) { c.Slots = []int{1} },
		"slot": func(c *VoterConfig) { c.Slots = []int{0, 1, TermSlots} }, "slot twice": func(c *VoterConfig) { c.Slots = []int{0, 1, 1} },
		"target": func(c *VoterConfig) { c.Target = []NodeID{"b", "a"} }, "issuer": func(c *VoterConfig) { c.Issuer = "-" },
		"proof": func(c *VoterConfig) { c.Proof = []byte{1} },
	} {
		c := fullConfig()
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
