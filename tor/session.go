package tor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cretz/bine/control"
)

// session is one authenticated connection to a control port. One command runs
// at a time; a command that gets no answer ends the session, since the answer
// to it could not be told from the next one's.
type session struct {
	guard   *guard
	bine    *control.Conn
	version string
	limit   time.Duration // replaces every command's, unless it is 0
	turn    chan struct{} // holds one token: whoever has it may send
	events  chan control.Event

	done chan struct{} // closed when the session is over
	once sync.Once
	err  error // why; read after done
}

// connect opens, authenticates and subscribes. handle gets every event, from
// one goroutine, and must not wait.
func connect(ctx context.Context, o *Options, handle func(Event)) (*session, error) {
	conn, err := o.dialControl(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to tor's control port: %w", err)
	}
	s := &session{
		guard: newGuard(conn), limit: o.limit, turn: make(chan struct{}, 1),
		events: make(chan control.Event, eventQueue), done: make(chan struct{}),
	}
	s.bine = control.NewConn(textproto.NewConn(s.guard))
	if _, err := s.do(ctx, "AUTHENTICATE", commandTime, func(c *control.Conn) (struct{}, error) {
		return struct{}{}, s.authenticate(c, o)
	}); err != nil {
		s.end(err)
		return nil, fmt.Errorf("authenticate to tor: %w", err)
	}
	go s.pump(handle)
	if _, err := s.do(ctx, "SETEVENTS", commandTime, func(c *control.Conn) (struct{}, error) {
		return struct{}{}, c.AddEventListener(s.events, subscribed()...)
	}); err != nil {
		s.end(err)
		return nil, fmt.Errorf("subscribe to tor's events: %w", err)
	}
	go s.read()
	return s, nil
}

// end closes the session; the first reason stays.
func (s *session) end(err error) {
	s.once.Do(func() {
		s.err = err
		s.guard.Close()
		close(s.done)
	})
}

// read hands on what arrives between commands. It ends with the session.
func (s *session) read() {
	for {
		if err := s.bine.HandleNextEvent(); err != nil {
			s.end(fmt.Errorf("control port: %w", err))
			return
		}
	}
}

// pump empties the channel that bine would block on. It ends with the session.
func (s *session) pump(handle func(Event)) {
	for {
		select {
		case e := <-s.events:
			if e := translate(e); e != nil {
				handle(e)
			}
		case <-s.done:
			// Whoever still sends must not wait for ever.
			for {
				select {
				case <-s.events:
				case <-time.After(time.Second):
					return
				}
			}
		}
	}
}

// authenticate refuses to read a cookie from elsewhere than where this tor's
// lies: the port names the file, and the port need not be tor.
func (s *session) authenticate(c *control.Conn, o *Options) error {
	info, err := c.ProtocolInfo()
	if err != nil {
		return err
	}
	s.version = info.TorVersion
	if !newEnough(s.version) {
		return fmt.Errorf("version %q: %w", s.version, ErrTooOld)
	}
	want, password := o.cookieFile(), ""
	if o.Attach != nil {
		want, password = o.Attach.Cookie, o.Attach.Password
	}
	if info.HasAuthMethod("SAFECOOKIE") && !info.HasAuthMethod("NULL") {
		if err := checkCookie(info.CookieFile, want); err != nil {
			return err
		}
	}
	return c.Authenticate(password)
}

func checkCookie(named, want string) error {
	if named != want {
		return fmt.Errorf("the control port wants the cookie %q, this tor's is %q (hint: tor.cookie)", named, want)
	}
	file, err := os.Lstat(want)
	if err != nil {
		return fmt.Errorf("cookie of tor: %w", err)
	}
	if !file.Mode().IsRegular() || file.Size() != 32 {
		return fmt.Errorf("cookie of tor: %w: %s is no file of 32 bytes", fs.ErrInvalid, want)
	}
	return nil
}

// do runs one command. The caller stops waiting with its context; the command
// itself ends after limit, and the session with it.
func (s *session) do(ctx context.Context, name string, limit time.Duration, f func(*control.Conn) (struct{}, error)) (struct{}, error) {
	return call(ctx, s, name, limit, f)
}

func call[T any](ctx context.Context, s *session, name string, limit time.Duration, f func(*control.Conn) (T, error)) (T, error) {
	var zero T
	if s.limit > 0 {
		limit = s.limit
	}
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return zero, fmt.Errorf("%w: %w", ErrNotConnected, s.err)
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	go func() {
		defer func() { <-s.turn }()
		watch := time.AfterFunc(limit, func() { s.end(fmt.Errorf("%s: %w", name, ErrDeadline)) })
		defer watch.Stop()
		value, err := f(s.bine)
		answer <- result{value, s.explain(name, err)}
	}()
	select {
	case r := <-answer:
		return r.value, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
}

// explain turns an error of bine's into ours. A refusal leaves the session as
// it is; anything else ends it.
func (s *session) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		_, text, _ := strings.Cut(reply.Msg, ": ")
		return &ReplyError{Command: name, Code: reply.Code, Text: text}
	}
	// If the session ended before, by its reader or the deadline, that is why.
	s.end(fmt.Errorf("%s: %w", name, err))
	return s.err
}
