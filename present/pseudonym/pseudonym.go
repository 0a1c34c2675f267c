package pseudonym

import (
	"cmp"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Kind is what a name is of, and how its pseudonym begins.
type Kind string

// Kinds of names.
const (
	Host    Kind = "host"
	User    Kind = "user"
	Zone    Kind = "zone"
	Cluster Kind = "cluster"
	Domain  Kind = "domain"
	Onion   Kind = "onion"
	Address Kind = "address"
)

// Bounds of what is known: what a hostile host says must not grow without end.
const (
	maxNames = 20_000
	maxName  = 255
)

// Names takes the names out of what skein says of a cluster: of hosts, users, zones
// and the cluster itself, addresses, onion addresses and domains. Each gets another one,
// the same wherever it stands, so that what is left can still be followed. A name is
// replaced wherever it stands as a word, in upper case too, also where a host is named
// like a word of skein's own; what has one inside base64 or hex is left out. Names of jobs,
// groups and labels, keys and numbers of users stay.
// It is to know all of them before it replaces the first.
type Names struct {
	known   map[string]string // in lower case, to their pseudonyms
	byFirst [256][]string     // known ones by their first byte, the longest first
	addrs   map[netip.Addr]string
	given   map[Kind]int
	list    []Pair
	keys    [][]byte // of onion addresses, which may stand there as keys
}

// Pair is a name and what stands for it.
type Pair struct {
	Kind      Kind   `json:"kind"`
	Name      string `json:"name"`
	Pseudonym string `json:"pseudonym"`
}

// New returns ones that know no name.
func New() *Names {
	return &Names{known: map[string]string{}, addrs: map[netip.Addr]string{}, given: map[Kind]int{}}
}

// Pairs are all names that were learned, or found in what was replaced.
func (n *Names) Pairs() []Pair { return n.list }

// Add has a name replaced.
func (n *Names) Add(kind Kind, name string) { n.give(kind, name) }

// give returns the pseudonym of a name, a new one if it has none.
func (n *Names) give(kind Kind, name string) string {
	name = strings.ToLower(name)
	if as, ok := n.known[name]; ok || name == "" || len(name) > maxName || len(n.known) >= maxNames {
		return cmp.Or(as, "[left out]")
	}
	as := n.next(kind, name)
	n.known[name] = as
	list := append(n.byFirst[name[0]], name)
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	n.byFirst[name[0]] = list
	return as
}

func (n *Names) next(kind Kind, name string) string {
	n.given[kind]++
	as := fmt.Sprintf("%s-%d", kind, n.given[kind])
	n.list = append(n.list, Pair{kind, name, as})
	return as
}

// address is what stands for an address: another one of its family, of those that are
// for examples and measurements. Addresses that are the same on every machine stay.
func (n *Names) address(a netip.Addr) string {
	a = a.WithZone("")
	if a.Is4In6() {
		return "::ffff:" + n.address(a.Unmap())
	}
	if a.IsUnspecified() || a.IsLoopback() {
		return a.String()
	}
	if as, ok := n.addrs[a]; ok {
		return as
	}
	if len(n.addrs) >= maxNames {
		return "[left out]"
	}
	i := len(n.addrs) + 1
	as := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
	if a.Is6() {
		as = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 14: byte(i >> 8), 15: byte(i)})
	}
	n.addrs[a] = as.String()
	n.list = append(n.list, Pair{Address, a.String(), as.String()})
	return as.String()
}

// onionLen is the length of an address without .onion, onionKey that of its key.
const (
	onionLen = 56
	onionKey = 32
)

var onionEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// onion is what stands for an onion address.
func (n *Names) onion(address string) string {
	if raw, err := onionEncoding.DecodeString(strings.ToUpper(address)); err == nil && n.known[strings.ToLower(address)] == "" && len(n.keys) < maxNames {
		n.keys = append(n.keys, raw[:onionKey])
	}
	return n.give(Onion, address)
}

var (
	hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	// principal is a user as jobs and events name one, home a directory of one.
	principal = regexp.MustCompile(`\buser:([a-z0-9._-]{1,48})`)
	home      = regexp.MustCompile(`/(?:home|Users)/([A-Za-z0-9._-]{1,48})`)
	// domain is a name with dots before a port, behind a scheme or where one was looked up.
	domain  = regexp.MustCompile(`(?i)(?:(?:://|\blookup )((?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*)|\b((?:[a-z0-9-]+\.)+[a-z][a-z0-9-]+):[0-9]{1,5}\b)`)
	address = regexp.MustCompile(`(?i)\b[a-z2-7]{56}\b`)
)

// keys of JSON whose values are names.
var keyKinds = map[string]Kind{
	"node": Host, "host": Host, "holder": Host, "peer": Host, "cluster": Cluster, "cluster_name": Cluster, "zone": Zone,
}

// Learn finds the names in a file of skein's: by the keys under which JSON has them, line
// by line if it has several values, and by their form in any text.
func (n *Names) Learn(text []byte) {
	for _, m := range principal.FindAllSubmatch(text, maxNames) {
		n.Add(User, strings.TrimRight(string(m[1]), "."))
	}
	for _, m := range home.FindAllSubmatch(text, maxNames) {
		n.Add(User, string(m[1]))
	}
	for _, m := range address.FindAll(text, maxNames) {
		n.onion(string(m))
	}
	for _, m := range domain.FindAllSubmatch(text, maxNames) {
		if name := cmp.Or(string(m[1]), string(m[2])); !strings.HasSuffix(strings.ToLower(name), ".onion") && !strings.HasSuffix(name, ".go") {
			n.Add(Domain, name)
		}
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var v any
		if dec.Decode(&v) != nil {
			return
		}
		n.learn("", v)
	}
}

func (n *Names) learn(key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			n.learn(k, x)
		}
	case []any:
		for _, x := range v {
			n.learn(key, x)
		}
	case string:
		kind, ok := keyKinds[key]
		if ok && v != "" && (kind != Host || hostName.MatchString(v)) {
			n.Add(kind, v)
		}
	}
}
