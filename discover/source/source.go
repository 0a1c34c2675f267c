package source

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxEndpoints is how many endpoints of one source are used.
	MaxEndpoints = 64
	// MaxSources bounds the sources of one host.
	MaxSources = 8
	// DefaultPort is that of the mesh, unless a source says another one.
	DefaultPort = 51820
	// maxName is the longest name of DNS.
	maxName = 253
)

// Kind is how a source is asked.
type Kind string

// Kinds of source.
const (
	DNS     Kind = "dns"  // the addresses of a name
	Service Kind = "srv"  // the targets of a service of DNS, with their ports
	File    Kind = "file" // a file of this host, ADDRESS[:PORT] a line
)

// Source is a place that knows endpoints.
type Source struct {
	Kind Kind
	Name string // of DNS, or of the file
	Port uint16 // of DNS and File, where an endpoint says none
}

// Parse reads dns:NAME[:PORT], srv:_skein._udp.NAME or file:PATH.
func Parse(s string) (Source, error) {
	kind, rest, _ := strings.Cut(s, ":")
	out := Source{Kind: Kind(kind), Name: rest, Port: DefaultPort}
	switch out.Kind {
	case DNS:
		if name, port, ok := strings.Cut(rest, ":"); ok {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				return Source{}, fmt.Errorf("%.64q is no port", port)
			}
			out.Name, out.Port = name, uint16(n)
		}
	case Service:
		if !strings.HasPrefix(rest, "_") || strings.Count(rest, "._") != 1 {
			return Source{}, fmt.Errorf("%.300q is no service, want srv:_skein._udp.NAME", rest)
		}
	case File:
		if !filepath.IsAbs(rest) || strings.ContainsRune(rest, 0) {
			return Source{}, fmt.Errorf("%.300q is no absolute path", rest)
		}
		return out, nil
	default:
		return Source{}, fmt.Errorf("%.300q is no source, want dns:NAME[:PORT], srv:_skein._udp.NAME or file:PATH", s)
	}
	if !validName(out.Name) {
		return Source{}, fmt.Errorf("%.300q is not a name of DNS", out.Name)
	}
	return out, nil
}

// String is what Parse reads.
func (s Source) String() string {
	if s.Kind == DNS && s.Port != DefaultPort {
		return fmt.Sprintf("%s:%s:%d", s.Kind, s.Name, s.Port)
	}
	return string(s.Kind) + ":" + s.Name
}

// List reads a list of sources, as configurations have it.
func List(v any) (out []Source, err error) {
	list, ok := v.([]any)
	if !ok || len(list) > MaxSources {
		return nil, fmt.Errorf("want a list of at most %d strings", MaxSources)
	}
	for _, e := range list {
		text, ok := e.(string)
		if !ok {
			return nil, fmt.Errorf("%v is no string", e)
		}
		s, err := Parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Show is what List reads, as text.
func Show(list []Source) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s.String())
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func validName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		odd := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, odd) {
			return false
		}
	}
	return true
}

// ReadFile reads the lines of a file: ADDRESS[:PORT], "#" begins a comment. What is no
// address is passed over.
func ReadFile(text string, port uint16) (out []netip.AddrPort) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if at, err := netip.ParseAddrPort(line); err == nil {
			out = append(out, at)
		} else if addr, err := netip.ParseAddr(strings.Trim(line, "[]")); err == nil {
			out = append(out, netip.AddrPortFrom(addr, port))
		}
	}
	return out
}

// Usable are the first MaxEndpoints of an answer at which a host can be, without own, each
// once.
func Usable(found []netip.AddrPort, own func(netip.AddrPort) bool) (out []netip.AddrPort) {
	for _, at := range found {
		at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		addr := at.Addr()
		if !addr.IsValid() || at.Port() == 0 || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() ||
			addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || own(at) || slices.Contains(out, at) {
			continue
		}
		if out = append(out, at); len(out) == MaxEndpoints {
			break
		}
	}
	return out
}
