package door

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

// Names are those under which a listener is asked for: they keep web pages of strangers
// from reading through a browser, which a name of theirs leads to this address. The zero
// value has none; its methods may be called from any goroutine.
type Names struct {
	mu   sync.Mutex
	list map[string]bool
}

// Add adds a name.
func (n *Names) Add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.list == nil {
		n.list = map[string]bool{}
	}
	n.list[strings.ToLower(name)] = true
}

// AddAddr adds the address of a listener, and localhost if it is one of this machine alone.
func (n *Names) AddAddr(addr net.Addr) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return
	}
	n.Add(host)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		n.Add("localhost")
	}
}

// Has reports whether host, as a request names it, is one of them.
func (n *Names) Has(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[strings.Trim(strings.ToLower(host), "[]")]
}

// List are all of them.
func (n *Names) List() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.list))
}
