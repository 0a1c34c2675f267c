package load

import (
	"fmt"
	"slices"
)

// Class says how a request ended. The set is closed: reports, thresholds and
// results name classes.
type Class uint8

// Classes of requests.
const (
	OK Class = iota
	DNS
	Blocked
	Refused
	Unreachable
	ConnectTimeout
	TLS
	TLSVerify
	Reset
	EOF
	Timeout
	Protocol
	TooLarge
	HTTP4xx
	HTTP5xx
	CheckFailed
	ExtractFailed
	Skipped
	Interrupted
	Dropped
	Generator
	Classes // their number
)

var classNames = [Classes]string{
	"ok", "dns", "blocked", "refused", "unreachable", "connect_timeout", "tls", "tls_verify", "reset", "eof", "timeout",
	"protocol", "too_large", "http4xx", "http5xx", "check", "extract", "skipped", "interrupted", "dropped", "generator",
}

var classMeanings = [Classes]string{
	"the answer was as it should be",
	"the name of the target could not be resolved",
	"the target has an address to which nothing may be sent",
	"the target refused the connection",
	"no way to the target: no route, or its network is down",
	"the connection was not made in time",
	"the TLS handshake broke",
	"the target's certificate is not to be trusted",
	"the target reset the connection",
	"the target closed the connection before its answer was whole",
	"the answer was not whole in time",
	"what came is not HTTP",
	"the answer is larger than is taken",
	"status 400 to 499",
	"status 500 to 599",
	"a check does not hold",
	"a value that a later step needs is not in the answer",
	"not sent: a step before it failed",
	"not ended when the run was over",
	"not sent: no user was free for 10 s of arrivals",
	"not sent: the generator itself could not",
}

// String is the name of the class in reports and thresholds.
func (c Class) String() string {
	if c < Classes {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Meaning says in words what the class stands for.
func (c Class) Meaning() string {
	if c < Classes {
		return classMeanings[c]
	}
	return c.String()
}

// Timed reports whether requests of the class have a latency: the others were
// never sent, or never ended.
func (c Class) Timed() bool {
	return c != Skipped && c != Interrupted && c != Dropped && c != Generator
}

// Harm reports whether the class says that the target breaks: a run that sees
// little else ends.
func (c Class) Harm() bool {
	switch c {
	case HTTP5xx, Refused, Unreachable, ConnectTimeout, Reset, EOF, Timeout:
		return true
	}
	return false
}

// ClassNamed finds a class by its name.
func ClassNamed(name string) (Class, bool) {
	i := slices.Index(classNames[:], name)
	return Class(max(i, 0)), i >= 0
}

// ClassNames are the names of all classes.
func ClassNames() []string { return slices.Clone(classNames[:]) }
