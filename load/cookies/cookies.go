package cookies

import (
	"net/http"
	"strings"
	"time"

	"github.com/skein-project/skein/load"
)

// Bounds of what targets may have a user remember.
const (
	maxCookies     = 64
	maxCookieBytes = 4 << 10
)

// Jar is what targets have a user remember. Its zero value is empty.
type Jar struct{ list []cookie }

// Empty reports that nothing is remembered.
func (j *Jar) Empty() bool { return len(j.list) == 0 }

// Clear forgets all.
func (j *Jar) Clear() { j.list = nil }

type cookie struct {
	name, value  string
	domain, path string
	exact        bool // that host alone
	secure       bool
	ends         time.Time // zero: never
}

// Set takes a field Set-Cookie of an answer.
func (j *Jar) Set(o load.Origin, field string, now time.Time) {
	if len(field) > maxCookieBytes {
		return
	}
	c, err := http.ParseSetCookie(field)
	if err != nil || strings.ContainsAny(c.Value, "\r\n;") {
		return
	}
	one := cookie{name: c.Name, value: c.Value, domain: strings.ToLower(o.Name), path: "/", exact: true, secure: c.Secure}
	if d := strings.ToLower(strings.TrimPrefix(c.Domain, ".")); d != "" && d != one.domain {
		// A host speaks for the domain that it is in, and no whole top level.
		if !strings.HasSuffix(one.domain, "."+d) || !strings.Contains(d, ".") {
			return
		}
		one.domain, one.exact = d, false
	} else if d != "" {
		one.exact = false
	}
	if strings.HasPrefix(c.Path, "/") {
		one.path = c.Path
	}
	switch {
	case c.MaxAge > 0:
		one.ends = now.Add(time.Duration(min(c.MaxAge, 1<<30)) * time.Second)
	case c.MaxAge < 0:
		one.ends = now.Add(-time.Second)
	case !c.Expires.IsZero():
		one.ends = c.Expires
	}
	for i, old := range j.list {
		if old.name == one.name && old.domain == one.domain && old.path == one.path {
			j.list = append(j.list[:i], j.list[i+1:]...)
			break
		}
	}
	if (one.ends.IsZero() || one.ends.After(now)) && len(j.list) < maxCookies {
		j.list = append(j.list, one)
	}
}

// Append writes what goes to a target, as the value of a field Cookie.
func (j *Jar) Append(dst []byte, o load.Origin, target []byte, now time.Time) []byte {
	begin := len(dst)
	for _, c := range j.list {
		if c.domain != o.Name && (c.exact || !strings.HasSuffix(o.Name, "."+c.domain)) ||
			c.secure && !o.TLS || !c.ends.IsZero() && !c.ends.After(now) || !c.under(target) {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, "; "...)
		}
		dst = append(append(append(dst, c.name...), '='), c.value...)
	}
	return dst
}

func (c *cookie) under(target []byte) bool {
	if c.path == "/" {
		return true
	}
	path := target
	for i, b := range target {
		if b == '?' {
			path = target[:i]
			break
		}
	}
	if len(path) < len(c.path) || string(path[:len(c.path)]) != c.path {
		return false
	}
	return len(path) == len(c.path) || c.path[len(c.path)-1] == '/' || path[len(c.path)] == '/'
}
