package onionnet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/publisher/descriptor"
)

const (
	// answerTime bounds how long a backend and its client talk.
	answerTime = 2 * time.Minute
	// feedTime is how often a publisher looks for a consensus that no event
	// told it of.
	feedTime = 5 * time.Second
	// dialTime is how long tor tries to connect a stream.
	dialTime = 150 * time.Second
)

// Dial connects to the address through a client's tor and returns who
// answered. Different users share no circuit.
func Dial(ctx context.Context, client *tornet.Tor, user string, a descriptor.Address) (host string, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := client.Dial(ctx, user, a.String()+":80")
	if err != nil {
		return "", fmt.Errorf("dial %s through %s: %w", a, client.Name(), err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 100))
	if err != nil {
		return "", fmt.Errorf("read from %s through %s: %w", a, client.Name(), err)
	}
	name, ok := strings.CutSuffix(string(text), "\n")
	if !ok {
		return "", fmt.Errorf("answer of %s is %q", a, text)
	}
	return name, nil
}

// Visit is one connection of a client.
type Visit struct {
	Host  string
	Begin time.Time
	Took  time.Duration
	Err   error
}

// TakeVisit connects and notes the time.
func TakeVisit(ctx context.Context, client *tornet.Tor, user string, a descriptor.Address) Visit {
	v := Visit{Begin: time.Now()}
	v.Host, v.Err = Dial(ctx, client, user, a)
	v.Took = time.Since(v.Begin)
	return v
}
