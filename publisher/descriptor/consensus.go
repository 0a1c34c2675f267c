package descriptor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what the own tor says about the network, about ten times of what
// the public one has.
const (
	MaxConsensus  = 32 << 20
	MaxMicrodescs = 128 << 20
	maxRelays     = 100_000
	maxLine       = 64 << 10
)

// Consensus is what is needed of a consensus in the microdesc flavour. Whether
// to believe it was for the tor to say from which it came.
type Consensus struct {
	ValidAfter, FreshUntil, ValidUntil time.Time
	// CurrentSRV and PreviousSRV are nil if the authorities did not agree on
	// one.
	CurrentSRV, PreviousSRV *[32]byte
	Replicas                int           // hsdir_n_replicas
	SpreadStore             int           // hsdir_spread_store
	SpreadFetch             int           // hsdir_spread_fetch
	Interval                time.Duration // hsdir_interval
	Dirs                    []Dir         // relays that hold descriptors
	Relays                  int           // of all kinds
}

// Dir is a relay that may hold descriptors.
type Dir struct {
	Fingerprint Fingerprint
	Microdesc   [32]byte // digest
}

// The parameters with their default, lowest and highest values, as tor has
// them.
var ringParams = map[string][3]int{
	"hsdir_n_replicas":   {2, 1, 16},
	"hsdir_spread_store": {4, 1, 128},
	"hsdir_spread_fetch": {3, 1, 128},
	"hsdir_interval":     {1440, 30, 14400},
}

// ParseConsensus reads GETINFO dir/status-vote/current/consensus-microdesc.
func ParseConsensus(text []byte) (*Consensus, error) {
	if len(text) > MaxConsensus {
		return nil, fmt.Errorf("%w: %w: %d bytes", ErrConsensus, ErrTooLarge, len(text))
	}
	r := consensusReader{c: &Consensus{}, params: map[string]int{}, seen: map[Fingerprint]bool{}, once: map[string]bool{}}
	for k, limits := range ringParams {
		r.params[k] = limits[0]
	}
	err := eachLine(text, func(line []byte) (bool, error) {
		if bytes.HasPrefix(line, []byte("directory-footer")) {
			r.footer = true
			return false, nil
		}
		return true, r.line(strings.Fields(string(line)))
	})
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConsensus, err)
	}
	return r.c, nil
}

// eachLine hands over the lines of a text, without CR, until each says no.
func eachLine(text []byte, each func([]byte) (bool, error)) error {
	for n := 1; len(text) > 0; n++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if !ended || len(line) > maxLine || bytes.ContainsAny(line, "\r\x00") {
			return fmt.Errorf("%w: line %d is cut off, too long or not text", ErrSyntax, n)
		}
		more, err := each(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !more {
			return nil
		}
		text = rest
	}
	return nil
}

type consensusReader struct {
	c      *Consensus
	params map[string]int
	once   map[string]bool
	seen   map[Fingerprint]bool
	relay  struct {
		open, dir, digest, proto bool
		Dir
	}
	version, footer bool
}

func (r *consensusReader) line(f []string) (err error) {
	if len(f) == 0 {
		return nil
	}
	if !r.version {
		if len(f) < 3 || f[0] != "network-status-version" || f[1] != "3" || f[2] != "microdesc" {
			return fmt.Errorf("%w: not a consensus of version 3 in the microdesc flavour", ErrSyntax)
		}
		r.version = true
		return nil
	}
	switch f[0] {
	case "valid-after", "fresh-until", "valid-until", "params", "shared-rand-current-value", "shared-rand-previous-value":
		if r.once[f[0]] || r.relay.open {
			return fmt.Errorf("%w: %s twice or among the relays", ErrSyntax, f[0])
		}
		r.once[f[0]] = true
	}
	switch f[0] {
	case "valid-after":
		r.c.ValidAfter, err = timeOf(f)
	case "fresh-until":
		r.c.FreshUntil, err = timeOf(f)
	case "valid-until":
		r.c.ValidUntil, err = timeOf(f)
	case "params":
		err = r.readParams(f[1:])
	case "shared-rand-current-value":
		r.c.CurrentSRV, err = srvOf(f)
	case "shared-rand-previous-value":
		r.c.PreviousSRV, err = srvOf(f)
	case "r", "m", "s", "pr":
		err = r.readRelay(f)
	}
	return err
}

func (r *consensusReader) readParams(pairs []string) error {
	for _, kv := range pairs {
		k, v, _ := strings.Cut(kv, "=")
		limits, known := ringParams[k]
		if !known {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return fmt.Errorf("%w: params: %.60q", ErrSyntax, kv)
		}
		r.params[k] = min(max(int(n), limits[1]), limits[2])
	}
	return nil
}

func (r *consensusReader) readRelay(f []string) error {
	if f[0] == "r" {
		if err := r.closeRelay(); err != nil {
			return err
		}
		if len(f) < 3 {
			return fmt.Errorf("%w: relay without identity", ErrSyntax)
		}
		id, err := decode64(f[2])
		if err != nil || len(id) != len(Fingerprint{}) {
			return fmt.Errorf("%w: identity of relay %.40q", ErrSyntax, f[1])
		}
		r.relay.open, r.relay.Fingerprint = true, Fingerprint(id)
		return nil
	}
	if !r.relay.open {
		return fmt.Errorf("%w: line %s before the first relay", ErrSyntax, f[0])
	}
	switch f[0] {
	case "m":
		raw := make([]byte, 0, 33)
		if len(f) > 1 {
			raw, _ = base64.RawStdEncoding.AppendDecode(raw, []byte(f[1]))
		}
		if len(raw) != 32 || r.relay.digest {
			return fmt.Errorf("%w: digest of the microdescriptor of %s", ErrSyntax, r.relay.Fingerprint)
		}
		r.relay.digest, r.relay.Microdesc = true, [32]byte(raw)
	case "s":
		r.relay.dir = slices.Contains(f[1:], "HSDir")
	case "pr":
		r.relay.proto = supports(f[1:], "HSDir", 2)
	}
	return nil
}

func (r *consensusReader) closeRelay() error {
	if !r.relay.open {
		return nil
	}
	if r.seen[r.relay.Fingerprint] {
		return fmt.Errorf("%w: relay %s twice", ErrSyntax, r.relay.Fingerprint)
	}
	if r.c.Relays == maxRelays {
		return fmt.Errorf("%w: more than %d relays", ErrTooLarge, maxRelays)
	}
	r.seen[r.relay.Fingerprint] = true
	r.c.Relays++
	if r.relay.dir && r.relay.proto && r.relay.digest {
		r.c.Dirs = append(r.c.Dirs, r.relay.Dir)
	}
	r.relay.open, r.relay.dir, r.relay.digest, r.relay.proto = false, false, false, false
	return nil
}

func (r *consensusReader) end() error {
	if err := r.closeRelay(); err != nil {
		return err
	}
	c := r.c
	if !r.footer {
		return fmt.Errorf("%w: ends before the footer", ErrSyntax)
	}
	if c.ValidAfter.IsZero() || !c.FreshUntil.After(c.ValidAfter) || c.ValidUntil.Before(c.FreshUntil) {
		return fmt.Errorf("%w: valid-after, fresh-until and valid-until are missing or out of order", ErrSyntax)
	}
	c.Replicas, c.SpreadStore, c.SpreadFetch = r.params["hsdir_n_replicas"], r.params["hsdir_spread_store"], r.params["hsdir_spread_fetch"]
	c.Interval = time.Duration(r.params["hsdir_interval"]) * time.Minute
	return nil
}

func timeOf(f []string) (time.Time, error) {
	if len(f) == 3 {
		if t, err := time.Parse(time.DateTime, f[1]+" "+f[2]); err == nil && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s is no time", ErrSyntax, f[0])
}

func srvOf(f []string) (*[32]byte, error) {
	if len(f) >= 3 {
		if raw, err := decode64(f[2]); err == nil && len(raw) == 32 {
			srv := [32]byte(raw)
			return &srv, nil
		}
	}
	return nil, fmt.Errorf("%w: %s is not 32 bytes", ErrSyntax, f[0])
}

// supports reports whether a list like "Cons=1-2 HSDir=2,4" has the version.
func supports(protocols []string, name string, version uint64) bool {
	for _, p := range protocols {
		list, ok := strings.CutPrefix(p, name+"=")
		if !ok {
			continue
		}
		for span := range strings.SplitSeq(list, ",") {
			from, to, isRange := strings.Cut(span, "-")
			if !isRange {
				to = from
			}
			lo, err1 := strconv.ParseUint(from, 10, 32)
			hi, err2 := strconv.ParseUint(to, 10, 32)
			if err1 == nil && err2 == nil && lo <= version && version <= hi {
				return true
			}
		}
	}
	return false
}

// Microdescs maps the digest of a microdescriptor to the Ed25519 identity in
// it.
type Microdescs map[[32]byte][32]byte

// ParseMicrodescs reads GETINFO md/all. Microdescriptors without an identity
// are left out: such a relay can hold no descriptor.
func ParseMicrodescs(text []byte) (Microdescs, error) {
	if len(text) > MaxMicrodescs {
		return nil, fmt.Errorf("microdescriptors: %w: %d bytes", ErrTooLarge, len(text))
	}
	all := Microdescs{}
	hash := sha256.New()
	var id [32]byte
	var open, found bool
	finish := func() {
		if open && found {
			all[[32]byte(hash.Sum(nil))] = id
		}
		hash.Reset()
		open, found = true, false
	}
	err := eachLine(text, func(line []byte) (bool, error) {
		keyword, rest, _ := bytes.Cut(line, []byte(" "))
		if string(keyword) == "onion-key" {
			if finish(); len(all) == maxRelays {
				return false, fmt.Errorf("%w: more than %d", ErrTooLarge, maxRelays)
			}
		} else if !open {
			if len(line) == 0 {
				return true, nil // The control port begins its value with one.
			}
			return false, fmt.Errorf("%w: does not begin with onion-key", ErrSyntax)
		}
		_, _ = hash.Write(line)
		_, _ = hash.Write([]byte("\n"))
		if f := bytes.Fields(rest); string(keyword) == "id" && len(f) >= 2 && string(f[0]) == "ed25519" {
			raw, err := decode64(string(f[1]))
			if err != nil || len(raw) != 32 || found {
				return false, fmt.Errorf("%w: id ed25519", ErrSyntax)
			}
			id, found = [32]byte(raw), true
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("microdescriptors: %w", err)
	}
	finish()
	return all, nil
}
