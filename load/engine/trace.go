package engine

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skein-project/skein/load"
)

// trace tells of one exchange.
func (l *lane) trace(st *load.Step, class load.Class, err error) {
	x := Exchange{Step: st.Name, Status: l.answer.status, Class: class, Err: err, Duration: time.Since(l.begin), Request: bytes.Clone(l.request)}
	if l.answer.status > 0 {
		x.Body = bytes.Clone(l.answer.body)
		x.Head = l.answer.headText()
		x.Checks = append(x.Checks, l.checks...)
		x.Values = map[string]string{}
		l.u.mu.Lock()
		for _, e := range st.Extract {
			if v := l.u.slots[e.Slot]; v != nil {
				x.Values[e.Name] = string(v)
			}
		}
		l.u.mu.Unlock()
	}
	for _, c := range st.Checks {
		x.Texts = append(x.Texts, c.Text)
	}
	l.u.e.o.Trace(x)
}

// headText is the head of an answer as lines.
func (a *answer) headText() []byte {
	var b bytes.Buffer
	if a.header != nil {
		fmt.Fprintf(&b, "%s %d %s\n", strings.TrimSuffix(a.proto, ".0"), a.status, http.StatusText(a.status))
		_ = a.header.Write(&b) // a buffer takes all
		return bytes.ReplaceAll(b.Bytes(), []byte("\r\n"), []byte("\n"))
	}
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\n", a.status, http.StatusText(a.status))
	a.h1.Each(func(name, value []byte) { fmt.Fprintf(&b, "%s: %s\n", name, value) })
	return b.Bytes()
}
