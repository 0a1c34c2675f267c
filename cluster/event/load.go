package event

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Limits of what the log says of a load test.
const (
	MaxLoadHosts   = 128
	MaxLoadName    = 64 // bytes
	MaxLoadVerdict = 16 // bytes
	MaxLoadShare   = 1024
	loadIDChars    = 26
)

// LoadID names a load test that runs on hosts: "l" and 26 lower-case base32 characters.
type LoadID string

// NewLoadID derives the id of the load test that owner submits under key.
func NewLoadID(owner, key string) LoadID {
	h := sha256.New()
	h.Write([]byte("load1"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(owner))))
	h.Write([]byte(owner))
	h.Write([]byte(key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return LoadID("l" + strings.ToLower(text[:loadIDChars]))
}

// ParseLoadID checks the form of s and returns it as a LoadID.
func ParseLoadID(s string) (LoadID, error) {
	if len(s) != 1+loadIDChars || s[0] != 'l' || strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("%.64q is not the id of a load test: want l and %d characters a-z, 2-7", s, loadIDChars)
	}
	return LoadID(s), nil
}

// LoadState is how far a load test is, by the log.
type LoadState string

// States of a load test. Between queued and started hosts are asked, reserved and
// prepared; a new holder begins that again.
const (
	LoadQueued  LoadState = "queued"
	LoadStarted LoadState = "started" // who takes part, and with which share, is fixed
	LoadEnded   LoadState = "ended"
)

// LoadRun says how a load test that runs on hosts is; the latest event decides. It says
// all of it each time.
type LoadRun struct {
	Run    LoadID           `json:"run"`              // its id
	Owner  string           `json:"owner"`            // who submitted it
	Name   string           `json:"name,omitempty"`   // for people
	Bundle cluster.Hash     `json:"bundle"`           // the artefact with the scenario and its files
	Hosts  int              `json:"hosts,omitempty"`  // how many are to take part; 0: those of on, or all that may
	On     []cluster.NodeID `json:"on,omitempty"`     // who is to take part; none: whoever may
	Loss   string           `json:"loss,omitempty"`   // when a host is lost: continue, the default, abort or redistribute
	State  LoadState        `json:"state"`            // queued, started or ended
	Since  int64            `json:"since"`            // when it was submitted, in seconds since the Unix epoch
	Slices []LoadSlice      `json:"slices,omitempty"` // once it has started: who takes part
	Actor  string           `json:"actor"`            // who asked for this state, "uid:1000@n1", or "holder"
	// Stop says that somebody wants it to end, and why.
	Stop string `json:"stop,omitempty"`

	Verdict string       `json:"verdict,omitempty"` // once it has ended: passed, failed, aborted, suspect, stopped or incomplete
	Why     string       `json:"why,omitempty"`     // of the verdict, or why it never started
	Report  cluster.Hash `json:"report,omitzero"`   // the artefact with the report; none: there is no result
}

// LoadSlice is the part of one host in a load test.
type LoadSlice struct {
	Host  cluster.NodeID `json:"host"`           // its name
	Share int            `json:"share"`          // of the sum of all shares
	Lost  string         `json:"lost,omitempty"` // why it is lost; none: it is not
}

// Kind implements Register.
func (LoadRun) Kind() Kind { return KindLoadRun }

// Subject implements Register.
func (b LoadRun) Subject() string { return fmt.Sprintf("load test %.64q", string(b.Run)) }

// Open reports that it has not ended.
func (b LoadRun) Open() bool { return b.State != LoadEnded }

// Check reports the first reason why a load test cannot be as b says.
func (b LoadRun) Check() error {
	if _, err := ParseLoadID(string(b.Run)); err != nil {
		return err
	}
	switch {
	case b.Owner == "" || len(b.Owner) > cluster.MaxPrincipal || len(b.Actor) > cluster.MaxPrincipal+cluster.MaxReason:
		return errors.New("owner or actor: nobody, or too long")
	case len(b.Name) > MaxLoadName:
		return fmt.Errorf("name has %d bytes, at most %d are allowed", len(b.Name), MaxLoadName)
	case b.Bundle.IsZero():
		return errors.New("bundle is missing")
	case b.Hosts < 0 || b.Hosts > MaxLoadHosts || len(b.On) > MaxLoadHosts || len(b.Slices) > MaxLoadHosts:
		return fmt.Errorf("at most %d hosts can take part", MaxLoadHosts)
	case b.Loss != "" && b.Loss != "continue" && b.Loss != "abort" && b.Loss != "redistribute":
		return fmt.Errorf("loss is %.32q, want continue, abort or redistribute", b.Loss)
	case b.State != LoadQueued && b.State != LoadStarted && b.State != LoadEnded:
		return fmt.Errorf("state is %.32q", string(b.State))
	case b.State == LoadStarted && len(b.Slices) == 0:
		return errors.New("it has started without hosts")
	case (b.State == LoadEnded) != (b.Verdict != ""), len(b.Verdict) > MaxLoadVerdict:
		return fmt.Errorf("verdict is %.32q in state %s", b.Verdict, b.State)
	case len(b.Stop) > cluster.MaxReason || len(b.Why) > cluster.MaxReason || b.Since < 0:
		return fmt.Errorf("a reason has more than %d bytes, or since is below 0", cluster.MaxReason)
	}
	seen := map[cluster.NodeID]bool{}
	for _, s := range b.Slices {
		if _, err := cluster.ParseNodeID(string(s.Host)); err != nil || seen[s.Host] || s.Share < 1 || s.Share > MaxLoadShare || len(s.Lost) > cluster.MaxReason {
			return fmt.Errorf("slice of %.64q: no host, twice, or a share that is not 1-%d", string(s.Host), MaxLoadShare)
		}
		seen[s.Host] = true
	}
	for i, n := range b.On {
		if _, err := cluster.ParseNodeID(string(n)); err != nil || i > 0 && b.On[i-1] >= n {
			return fmt.Errorf("on: %.64q is no host, or not behind the one before it", string(n))
		}
	}
	return nil
}

// Weight is an upper bound of the encoded size, in bytes.
func (b LoadRun) Weight() int { return 2048 + 64*len(b.On) + (128+cluster.MaxReason)*len(b.Slices) }
