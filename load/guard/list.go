package guard

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// MaxTargets bounds a List, the others what one of it says.
const (
	MaxTargets     = 256
	MaxTargetRate  = 1_000_000
	MaxConnections = 1_000_000
)

// Target is what a host allows to be loaded: a name and its port, or a network and
// ports.
type Target struct {
	Text        string // as it was written
	Name        string // "": a network
	Net         netip.Prefix
	First, Last uint16 // ports
	Limits
}

// List is what a host allows. An empty one allows nothing.
type List []Target

// ParseTarget reads "api.example.org:443", "10.20.0.0/16:8000-8999" or
// "[2001:db8::/32]:443".
func ParseTarget(text string, limits Limits) (Target, error) {
	t := Target{Text: text, Limits: limits}
	i := strings.LastIndexByte(text, ':')
	if i < 0 || len(text) > 300 {
		return t, fmt.Errorf("%.80q: want HOST:PORT, NETWORK:PORT or NETWORK:PORT-PORT", text)
	}
	host, ports := text[:i], text[i+1:]
	first, last, span := strings.Cut(ports, "-")
	low, err := strconv.ParseUint(first, 10, 16)
	high := low
	if err == nil && span {
		high, err = strconv.ParseUint(last, 10, 16)
	}
	if err != nil || low == 0 || high < low {
		return t, fmt.Errorf("%.80q: %q is no port, want 1-65535 or FIRST-LAST", text, ports)
	}
	t.First, t.Last = uint16(low), uint16(high)
	if err := limits.check(); err != nil {
		return t, fmt.Errorf("%.80q: %w", text, err)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if p, err := netip.ParsePrefix(inner); err == nil {
		if p != p.Masked() || p.Addr().Is4In6() {
			return t, fmt.Errorf("%.80q: the network is %s", text, p.Masked())
		}
		t.Net = p
		return t, nil
	}
	if a, err := netip.ParseAddr(inner); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return t, fmt.Errorf("%.80q: want a plain address", text)
		}
		t.Net = netip.PrefixFrom(a, a.BitLen())
		return t, nil
	}
	t.Name = strings.ToLower(host)
	if host == "" || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return t, fmt.Errorf("%.80q: %q is neither a name nor a network", text, host)
	}
	return t, nil
}

// ports reports whether a port is one of t.
func (t Target) ports(port uint16) bool { return t.First <= port && port <= t.Last }

// has reports whether t is a network that allows an address. That of this machine or of a private
// network needs one of its own: all of the internet is none.
func (t Target) has(a netip.Addr) bool {
	return t.Name == "" && t.Net.Contains(a) && (Public(a) || !Public(t.Net.Addr()))
}

// Named finds what allows a host, as a URL names it, and port; an error says that nothing
// does. An address is allowed by a network only, of several by the smallest; a name by
// itself, or by any network, of which the strictest counts: at which addresses it may be,
// see At.
func (l List) Named(name string, port uint16) (Target, error) {
	a, err := netip.ParseAddr(name)
	isName, found, ok := err != nil, Target{}, false
	for _, t := range l {
		switch {
		case !t.ports(port):
		case t.Name != "":
			if isName && strings.EqualFold(t.Name, strings.TrimSuffix(name, ".")) {
				return t, nil
			}
		case isName && (!ok || stricter(t, found)), !isName && t.has(a.Unmap()) && (!ok || t.Net.Bits() > found.Net.Bits()):
			found, ok = t, true
		}
	}
	if ok {
		return found, nil
	}
	return Target{}, fmt.Errorf("load.targets has nothing for %s:%d", name, port)
}

// stricter reports that less may be sent to a than to b.
func stricter(a, b Target) bool { return a.Rate > 0 && (b.Rate == 0 || a.Rate < b.Rate) }

// At says why nothing may be sent to an address of a host that has that name in URLs;
// nil: it may. Addresses of this machine and of private networks need an entry of their
// network; those of the internet one of the name, or of their network.
func (l List) At(name string, at netip.AddrPort) error {
	a := at.Addr().Unmap()
	for _, t := range l {
		switch {
		case !t.ports(at.Port()):
		case t.has(a):
			return nil
		case t.Name != "" && strings.EqualFold(t.Name, strings.TrimSuffix(name, ".")) && Public(a):
			return nil
		}
	}
	if !Public(a) {
		return fmt.Errorf("load.targets has no network with %s: addresses of this machine and of private networks need one", at)
	}
	return fmt.Errorf("load.targets has nothing for %s", at)
}

// ParseList reads a list by what is written and the limits of each.
func ParseList(table map[string]Limits) (List, error) {
	if len(table) > MaxTargets {
		return nil, fmt.Errorf("%d targets, at most %d are allowed", len(table), MaxTargets)
	}
	var out List
	var faults []error
	for text, limits := range table {
		t, err := ParseTarget(text, limits)
		if err == nil {
			err = t.never()
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out = append(out, t)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	slices.SortFunc(out, func(a, b Target) int { return cmp.Compare(a.Text, b.Text) })
	return out, errors.Join(faults...)
}

// never refuses an entry that is only of addresses to which nothing is ever sent.
func (t Target) never() error {
	if t.Name != "" {
		return nil
	}
	if why := (Guard{}).Refuse(t.Net.Addr()); why != "" && t.Net.IsSingleIP() {
		return fmt.Errorf("%.80q: nothing is ever sent there: %s", t.Text, why)
	}
	if linkLocal4.Overlaps(t.Net) && t.Net.Bits() >= linkLocal4.Bits() {
		return fmt.Errorf("%.80q: nothing is ever sent there: it is link-local", t.Text)
	}
	return nil
}

var linkLocal4 = netip.MustParsePrefix("169.254.0.0/16")
