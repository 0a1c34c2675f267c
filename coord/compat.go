package coord

import (
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// compat decides which hosts this one can work with.
type compat struct {
	version string
	profile cluster.Profile
	views   *views
	log     zerolog.Logger
}

// check refuses a peer of another major version, and notes one with another
// profile: such hosts can share a cluster, but not vote together.
func (c *compat) check(p *peerState, hb *wire.Heartbeat) error {
	ours, theirs := major(c.version), major(hb.Version)
	if ours >= 0 && theirs >= 0 && ours != theirs {
		if !p.compat.major {
			p.compat.major = true
			p.compat.why = "runs version " + hb.Version + ", this host " + c.version + ": other major version"
			c.log.Error().Str("peer", string(p.node)).Str("version", hb.Version).Str("own", c.version).
				Msg("peer runs another major version: its messages are refused")
		}
		return wire.Refuse(reasonMajor, "%s runs %s, this host %s", p.node, hb.Version, c.version)
	}
	if p.compat.major {
		p.compat.major, p.compat.why = false, ""
		c.log.Info().Str("peer", string(p.node)).Str("version", hb.Version).Msg("peer runs a compatible version again")
	}
	c.setProfile(p, hb.Profile)
	return nil
}

// setProfile notes whether a peer's profile is this host's.
func (c *compat) setProfile(p *peerState, theirs cluster.Profile) {
	other := theirs != c.profile
	if other == p.compat.profile {
		return
	}
	p.compat.profile = other
	c.views.touch()
	if !other {
		p.compat.why = ""
		c.log.Info().Str("peer", string(p.node)).Msg("peer has the same profile again")
		return
	}
	p.compat.why = "has profile " + strconv.Quote(string(theirs)) + ", this host " + strconv.Quote(string(c.profile))
	c.log.Error().Str("peer", string(p.node)).Str("profile", string(theirs)).Str("own", string(c.profile)).
		Msg("peer has another profile: it takes no part in the lease")
}

// refusal is why only heartbeats of p are accepted, nil if all its messages are.
func (p *peerState) refusal() error {
	if !p.compat.major {
		return nil
	}
	return wire.Refuse(reasonMajor, "%s: %s", p.node, p.compat.why)
}

// judge refuses a lease message under another profile.
func (c *compat) judge(p *peerState, theirs cluster.Profile) error {
	if err := p.refusal(); err != nil {
		return err
	}
	if theirs != c.profile {
		c.setProfile(p, theirs)
		return wire.Refuse(reasonProfile, "%s has profile %q, this host %q", p.node, theirs, c.profile)
	}
	return nil
}

// major is the first number of a version, -1 if it has none: a development
// build goes with everything.
func major(version string) int {
	head, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(head)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
