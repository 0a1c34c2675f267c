package wire

import (
	"slices"
	"strings"
)

// Limits of what a host says of its backends.
const (
	MaxBackends    = 8   // of one host
	MaxBackendName = 128 // bytes
	MaxBackend     = 64  // bytes of the one that older versions read
	// MaxBackendNames is how many bytes the names may have together, so that the
	// message fits a datagram.
	MaxBackendNames = 512
)

// Backend is a local service of the sender's that clients reach through it.
type Backend struct {
	Name    string `json:"name"`
	Healthy bool   `json:"healthy,omitempty"`
}

// BackendUnhealthy says which of the sender's backends fail. It informs: each
// host still judges for itself. While one fails the message is repeated; when
// none does any more, it is sent a last few times to say so.
type BackendUnhealthy struct {
	// Backend is the first that fails, or failed: all that hosts of versions
	// before Backends read and send. Its name may be cut off.
	Backend string `json:"backend"`
	// Backends are all of the sender's, those that are healthy as well.
	Backends []Backend `json:"backends,omitempty"`
}

func (BackendUnhealthy) kind() Type { return TypeBackendUnhealthy }

// NewBackendUnhealthy makes the message about a host's backends. It makes names
// printable, cuts off those that are too long, and leaves out what is beyond
// the limits, healthy backends first. ok is false if there is none.
func NewBackendUnhealthy(backends []Backend) (b BackendUnhealthy, ok bool) {
	list := make([]Backend, 0, len(backends))
	for _, x := range backends {
		if x.Name = backendName(x.Name, MaxBackendName); x.Name != "" {
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return b, false
	}
	slices.SortStableFunc(list, func(a, b Backend) int {
		switch {
		case a.Healthy == b.Healthy:
			return strings.Compare(a.Name, b.Name)
		case b.Healthy:
			return -1
		}
		return 1
	})
	list = list[:min(len(list), MaxBackends)]
	for size := 0; ; size = 0 {
		for _, x := range list {
			size += len(x.Name)
		}
		if size <= MaxBackendNames {
			return BackendUnhealthy{Backend: backendName(list[0].Name, MaxBackend), Backends: list}, true
		}
		list = list[:len(list)-1]
	}
}

func backendName(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	if len(s) > limit {
		s = s[:limit-3] + "..."
	}
	return s
}

// All are the sender's backends as far as it named them: hosts of earlier
// versions name one that fails.
func (b BackendUnhealthy) All() []Backend {
	if len(b.Backends) == 0 {
		return []Backend{{Name: b.Backend}}
	}
	return b.Backends
}

func (b BackendUnhealthy) validate() error {
	if b.Backend == "" || len(b.Backend) > MaxBackend || !printable(b.Backend) {
		return Refuse(ReasonPayload, "backend_unhealthy: backend %.80q", b.Backend)
	}
	if len(b.Backends) > MaxBackends {
		return Refuse(ReasonPayload, "backend_unhealthy: %d backends, at most %d", len(b.Backends), MaxBackends)
	}
	for _, x := range b.Backends {
		if x.Name == "" || len(x.Name) > MaxBackendName || !printable(x.Name) {
			return Refuse(ReasonPayload, "backend_unhealthy: backend %.160q", x.Name)
		}
	}
	return nil
}
