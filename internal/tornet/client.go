package tornet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/cretz/bine/control"
	"golang.org/x/net/proxy"
)

// answerTime is how long a tor may take to answer.
const answerTime = 10 * time.Second

// Control runs f on a fresh, authenticated connection to the tor's control
// port, which ends after answerTime.
func (t *Tor) Control(f func(*control.Conn) error) error {
	conn, err := net.DialTimeout("unix", t.ControlSocket(), answerTime)
	if err != nil {
		return fmt.Errorf("control %s: %w", t.name, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return fmt.Errorf("control %s: %w", t.name, err)
	}
	c := control.NewConn(textproto.NewConn(conn))
	if err := c.Authenticate(""); err != nil {
		return fmt.Errorf("control %s: %w", t.name, err)
	}
	if err := f(c); err != nil {
		return fmt.Errorf("control %s: %w", t.name, err)
	}
	return nil
}

// GetInfo asks the tor for one value; a text of several lines ends with a line
// feed, as tor has it.
func (t *Tor) GetInfo(key string) (value string, err error) {
	err = t.Control(func(c *control.Conn) error {
		values, err := c.GetInfo(key)
		if err != nil {
			return err
		}
		if len(values) != 1 {
			return fmt.Errorf("%d values for %s", len(values), key)
		}
		value = values[0].Val
		if text, ok := strings.CutPrefix(value, "\r\n"); ok {
			value = text + "\n"
		}
		return nil
	})
	return value, err
}

// newnymGap is how often tor obeys NEWNYM; what comes sooner it delays.
const newnymGap = 10 * time.Second

// Fresh makes the client forget circuits and descriptors, so that what it does
// next is what a client does that just started. It waits as long as tor wants
// between two such commands.
func (t *Tor) Fresh(ctx context.Context) error {
	t.mu.Lock()
	next := t.lastFresh.Add(newnymGap)
	t.lastFresh = time.Now()
	if next.After(t.lastFresh) {
		t.lastFresh = next
	}
	wait := time.Until(t.lastFresh)
	t.mu.Unlock()
	if err := pause(ctx, wait); err != nil {
		return err
	}
	if err := t.Control(func(c *control.Conn) error { return c.Signal("NEWNYM") }); err != nil {
		return err
	}
	return pause(ctx, 1500*time.Millisecond) // tor closes the circuits meanwhile
}

// Dial connects through the tor's SOCKS socket. Different users never share a
// circuit.
func (t *Tor) Dial(ctx context.Context, user, address string) (net.Conn, error) {
	d, err := proxy.SOCKS5("unix", t.SocksSocket(), &proxy.Auth{User: user, Password: "x"}, &net.Dialer{})
	if err != nil {
		return nil, err
	}
	cd, ok := d.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("the SOCKS dialer knows no context")
	}
	return cd.DialContext(ctx, "tcp", address)
}
