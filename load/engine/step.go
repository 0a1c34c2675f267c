package engine

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/h2"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/stat"
)

// answer is what came back, over whatever protocol.
type answer struct {
	h1     h1.Response
	status int
	body   []byte
	size   int64
	header http.Header // of what is not HTTP/1.1; nil: that of h1
	proto  string      // and its protocol
	said   string      // why the status is as it is, if the target says so
}

func (a *answer) get(name string) string {
	if a.header != nil {
		return a.header.Get(name)
	}
	return a.h1.Get(name)
}

// perform sends the request of a step, follows redirects as far as the step allows,
// and judges the answer. It reports whether all is as it should be.
func (u *user) perform(l *lane, st *load.Step, intended time.Time, own bool) bool {
	l.begin = u.e.now()
	l.sample = stat.Sample{Series: st.Series}
	if !intended.IsZero() {
		l.set(stat.Late, max(0, l.begin.Sub(intended)))
		l.sample.OwnLate = own
	}
	l.in.Iteration = u.iter
	u.mu.Lock()
	l.in.Slots, l.in.Rows = u.slots, u.rows
	u.mu.Unlock()
	o, err := l.render(st)
	if err != nil {
		class := load.Generator
		if errors.Is(err, load.ErrUnset) {
			class = load.Skipped
		}
		return l.end(st, class, err)
	}
	if err := l.hooked(st, o); err != nil {
		return l.end(st, load.Generator, err)
	}
	method, deadline := st.Method, l.begin.Add(st.Timeout)
	for hop := 0; ; hop++ {
		if err := u.e.slow(u, o); err != nil {
			return l.end(st, load.Interrupted, err)
		}
		if u.e.hold.Closed() {
			return l.end(st, load.Interrupted, nil)
		}
		l.ended = time.Time{}
		err := l.exchange(o, method, st, deadline)
		if l.ended.IsZero() {
			l.ended = u.e.now()
		}
		l.set(stat.Service, l.ended.Sub(l.begin))
		if err != nil {
			class := h1.ClassOf(err)
			if class == load.Interrupted && !u.e.isOver() {
				class = load.EOF // nobody here closed it
			}
			return l.end(st, class, err)
		}
		if u.e.cookies {
			l.remember(o)
		}
		if strings.EqualFold(l.answer.get("Skein-Load"), "stop") { // nothing is sent to where it leads
			u.e.end("the target asked for the end (Skein-Load: stop)")
			return l.judge(st)
		}
		next := ""
		if s := l.answer.status; hop < st.Redirects && (s == 301 || s == 302 || s == 303 || s == 307 || s == 308) {
			next = l.answer.get("Location")
		}
		if next == "" {
			return l.judge(st)
		}
		if o, method, err = l.redirect(st, o, method, next); err != nil {
			return l.end(st, load.Protocol, err)
		}
		l.record(st, load.OK)
		l.begin = u.e.now()
		l.sample = stat.Sample{Series: st.Series}
	}
}

func (l *lane) set(p stat.Phase, d time.Duration) { l.sample.Times[p], l.sample.Have[p] = d, true }

// record counts the request.
func (l *lane) record(st *load.Step, class load.Class) {
	s := &l.sample
	s.Class = class
	s.FirstCheck = st.FirstCheck
	if s.Have[stat.Service] {
		l.set(stat.Latency, s.Times[stat.Service]+s.Times[stat.Late])
	}
	l.u.bank.Record(s)
	l.u.e.noticed(s.Class)
}

// end counts a request without an answer that could be judged.
func (l *lane) end(st *load.Step, class load.Class, err error) bool {
	if class.Timed() && !l.sample.Have[stat.Service] {
		l.set(stat.Service, time.Since(l.begin))
	}
	l.record(st, class)
	l.u.e.note(st, class, err)
	if l.u.e.o.Trace != nil {
		l.trace(st, class, err)
	}
	return false
}

// judge looks at the answer, and takes from it what later steps need.
func (l *lane) judge(st *load.Step) bool {
	a := &l.answer
	if st.NeedsBody && strings.EqualFold(a.get("Content-Encoding"), "gzip") {
		b, err := h1.Inflate(a.body)
		if err != nil {
			return l.end(st, h1.ClassOf(err), err)
		}
		a.body = b
	}
	l.view = load.Answer{
		Status: a.status, Body: a.body, Size: a.size, Latency: l.sample.Times[stat.Service] + l.sample.Times[stat.Late], Header: l.header,
	}
	l.checks = l.checks[:0]
	broken := -1
	for i, c := range st.Checks {
		ok := c.Holds(&l.view)
		l.checks = append(l.checks, ok)
		if !ok && broken < 0 {
			broken = i
		}
	}
	l.sample.Checks = l.checks
	class := load.OK
	switch {
	case a.status >= 500 && (broken >= 0 || !st.OfStatus):
		class = load.HTTP5xx
	case a.status >= 400 && (broken >= 0 || !st.OfStatus):
		class = load.HTTP4xx
	case broken >= 0:
		class = load.CheckFailed
	}
	var cause error
	if class == load.OK {
		class, cause = l.extract(st)
	} else if broken >= 0 {
		cause = fmt.Errorf("%s does not hold, the status is %d%s", st.Checks[broken].Text, a.status, a.said)
	} else {
		cause = fmt.Errorf("the status is %d%s", a.status, a.said)
	}
	l.record(st, class)
	if class != load.OK {
		l.u.e.note(st, class, cause)
	}
	if l.u.e.o.Trace != nil {
		l.trace(st, class, cause)
	}
	return class == load.OK
}

func (l *lane) extract(st *load.Step) (load.Class, error) {
	if len(st.Extract) == 0 {
		return load.OK, nil
	}
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	for _, e := range st.Extract {
		v := e.Find(&l.view)
		if v == nil {
			return load.ExtractFailed, fmt.Errorf("the answer has no %s", e.Name)
		}
		l.u.slots[e.Slot] = l.u.keep(e.Slot, v)
	}
	return load.OK, nil
}

// keep is a copy of a value for a slot.
func (u *user) keep(slot int, v []byte) []byte {
	if u.kept == nil { // what was there may still be in use by another step
		return bytes.Clone(v)
	}
	if u.kept[slot] == nil {
		u.kept[slot] = make([]byte, 0, max(16, len(v))) // an empty value is one, too
	}
	u.kept[slot] = append(u.kept[slot][:0], v...)
	return u.kept[slot]
}

func (l *lane) remember(o *reach.Origin) {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	if l.answer.header != nil {
		for _, v := range l.answer.header.Values("Set-Cookie") {
			l.u.jar.Set(o.Origin, v, time.Now())
		}
		return
	}
	if l.answer.h1.Get("Set-Cookie") == "" {
		return
	}
	l.answer.h1.Each(func(name, value []byte) {
		if len(name) == len("Set-Cookie") && bytes.EqualFold(name, []byte("Set-Cookie")) {
			l.u.jar.Set(o.Origin, string(value), time.Now())
		}
	})
}

// render fills the templates of a step.
func (l *lane) render(st *load.Step) (*reach.Origin, error) {
	var err error
	o := l.u.e.byStep[st.Series]
	if st.Dynamic {
		if l.target, err = st.URL.Append(l.target[:0], &l.in); err != nil {
			return nil, err
		}
		if o, err = l.aim(string(l.target)); err != nil {
			return nil, err
		}
	} else if l.target, err = st.Target.Append(l.target[:0], &l.in); err != nil {
		return nil, err
	}
	l.scratch, l.pairs = l.scratch[:0], l.pairs[:0]
	for _, h := range st.Headers {
		begin := len(l.scratch)
		if l.scratch, err = h.Value.Append(l.scratch, &l.in); err != nil {
			return nil, err
		}
		if bytes.ContainsAny(l.scratch[begin:], "\r\n\x00") {
			return nil, fmt.Errorf("the value of %s has an end of line", h.Name)
		}
		l.pairs = append(l.pairs, pair{h.Name, begin, len(l.scratch)})
	}
	l.body = l.body[:0]
	if st.HasBody {
		if l.body, err = st.Body.Append(l.body, &l.in); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// aim takes a whole URL apart.
func (l *lane) aim(raw string) (*reach.Origin, error) {
	where, target, err := load.SplitURL(raw)
	if err != nil {
		return nil, err
	}
	l.target = append(l.target[:0], target...)
	return l.u.e.net.Origin(where)
}

// redirect makes the next request of a location.
func (l *lane) redirect(st *load.Step, o *reach.Origin, method, location string) (*reach.Origin, string, error) {
	base, err := url.Parse(o.String() + string(l.target))
	if err != nil {
		return nil, "", fmt.Errorf("redirect: %w", err)
	}
	to, err := base.Parse(location)
	if err != nil {
		return nil, "", fmt.Errorf("redirect: %w", err)
	}
	to.Fragment, to.User = "", nil
	next, err := l.aim(to.String())
	if err != nil {
		return nil, "", fmt.Errorf("redirect: %w", err)
	}
	if s := l.answer.status; s == 303 || (s == 301 || s == 302) && method == http.MethodPost {
		if method != http.MethodHead {
			method = http.MethodGet
		}
		l.body = l.body[:0]
		l.drop("Content-Type")
	}
	if next != o { // what is for one target no other gets
		l.drop("Authorization")
		l.drop("Cookie")
	}
	return next, method, nil
}

func (l *lane) drop(name string) {
	kept := l.pairs[:0]
	for _, p := range l.pairs {
		if !strings.EqualFold(p.name, name) {
			kept = append(kept, p)
		}
	}
	l.pairs = kept
}

// exchange sends what is rendered and reads the answer.
func (l *lane) exchange(o *reach.Origin, method string, st *load.Step, deadline time.Time) error {
	e := l.u.e
	l.answer.header, l.answer.status, l.answer.said = nil, 0, ""
	l.checks = l.checks[:0] // what fails is not judged
	switch method {
	case load.WebSocket:
		return l.overSocket(o, st, deadline)
	case load.GRPC:
		return l.call(o, st, deadline)
	}
	switch version := e.o.Plan.HTTP.Version; {
	case version == "3":
		return l.overMultiplexed(versionThree, o, method, st, deadline)
	case version == "2", version == "h2c", version == "auto" && o.TLS && o.HTTP2():
		return l.overMultiplexed(versionTwo, o, method, st, deadline)
	}
	c := (*conn)(nil)
	if !e.each {
		c = l.u.takeConn(o, l.begin)
	}
	if c == nil {
		var err error
		if c, err = l.connect(o, deadline); err != nil {
			return err
		}
		if c == nil { // TLS agreed on HTTP/2
			return l.overMultiplexed(versionTwo, o, method, st, deadline)
		}
	}
	l.request = l.write(l.request[:0], o, method)
	l.open.Store(c)
	if e.isOver() {
		c.Close()
		l.open.Store(nil)
		return &h1.Error{Class: load.Interrupted, Err: errOver}
	}
	t, err := c.Do(&h1.Request{Bytes: l.request, Head: method == http.MethodHead, KeepBody: st.NeedsBody || e.o.Trace != nil, Deadline: deadline}, &l.answer.h1)
	l.open.Store(nil)
	l.ended = t.End
	l.set(stat.Send, t.Send)
	if t.FirstByte > 0 {
		l.set(stat.FirstByte, t.FirstByte)
	}
	r := &l.answer.h1
	l.sample.Out += uint64(len(l.request))
	l.sample.In += uint64(r.HeadSize()) + uint64(r.Size)
	if err != nil {
		c.Close()
		return err
	}
	l.set(stat.Receive, t.Receive)
	if r.Reusable {
		l.u.putConn(c)
	} else {
		c.Close()
	}
	l.answer.status, l.answer.body, l.answer.size = r.Status, r.Body, r.Size
	return nil
}

var (
	errOver = errors.New("the run was over")
	both    = []string{"h2", "http/1.1"}
	onlyH1  = []string{"http/1.1"}
)

// connect makes a connection for HTTP/1.1; nil without an error: HTTP/2 has it.
func (l *lane) connect(o *reach.Origin, deadline time.Time) (*conn, error) {
	e := l.u.e
	protos := onlyH1
	if o.TLS && e.o.Plan.HTTP.Version == "auto" {
		protos = both
	}
	gen := o.Generation()
	raw, addr, t, err := e.net.Dial(e.hard, o, deadline, protos)
	l.dialled(o, t)
	if err != nil {
		return nil, err
	}
	if s, ok := raw.(interface{ ConnectionState() tlsState }); ok && o.TLS && s.ConnectionState().NegotiatedProtocol == "h2" {
		l.client(o, versionTwo).(*h2.Client).Hand(o, raw, addr.Addr()) //nolint:forcetypeassert // it is the client of version 2
		return nil, nil
	}
	if gen == 0 {
		gen = o.Generation()
	}
	return &conn{Conn: h1.NewConn(raw), o: o, addr: addr, gen: gen}, nil
}

// dialled notes what a new connection took.
func (l *lane) dialled(o *reach.Origin, t reach.Times) {
	if t.DNS > 0 {
		l.set(stat.DNS, t.DNS)
	}
	if t.Connect > 0 {
		l.set(stat.Connect, t.Connect)
	}
	if t.TLS > 0 && o.TLS {
		l.set(stat.TLS, t.TLS)
	}
}

// write makes the bytes of a request.
func (l *lane) write(dst []byte, o *reach.Origin, method string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, l.target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	host, agent := false, false
	for _, p := range l.pairs {
		host = host || strings.EqualFold(p.name, "Host")
		agent = agent || strings.EqualFold(p.name, "User-Agent")
	}
	if !host {
		dst = append(append(append(dst, "Host: "...), o.Host...), '\r', '\n')
	}
	if !agent {
		dst = append(append(append(dst, "User-Agent: "...), l.u.e.o.Agent...), '\r', '\n')
	}
	for _, p := range l.pairs {
		dst = append(append(dst, p.name...), ": "...)
		dst = append(append(dst, l.scratch[p.begin:p.end]...), '\r', '\n')
	}
	if l.u.e.cookies {
		dst = l.cookie(dst, o)
	}
	if len(l.body) > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(l.body)), 10)
		dst = append(dst, '\r', '\n')
	}
	dst = append(dst, '\r', '\n')
	return append(dst, l.body...)
}

func (l *lane) cookie(dst []byte, o *reach.Origin) []byte {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	if l.u.jar.Empty() {
		return dst
	}
	begin := len(dst)
	dst = append(dst, "Cookie: "...)
	before := len(dst)
	if dst = l.u.jar.Append(dst, o.Origin, l.target, time.Now()); len(dst) == before {
		return dst[:begin]
	}
	return append(dst, '\r', '\n')
}
