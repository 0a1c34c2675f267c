package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/tool"
)

// Centrifugo is a Centrifugo of its own on two ports of this machine.
type Centrifugo struct {
	*Server
	// Clients is where its clients connect, Internal where its API is asked: "host:port".
	Clients, Internal string

	program string
	args    []string
	dir     string
}

// StartCentrifugo starts a server below base with a configuration file, which names its ports
// and has health on.
func StartCentrifugo(ctx context.Context, base, file string) (*Centrifugo, error) {
	program, err := tool.Find("centrifugo")
	if err != nil {
		return nil, fmt.Errorf("%w: `make bin/tools/centrifugo` builds it", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var at struct {
		Address         string `json:"address"`
		Port            any    `json:"port"`
		InternalAddress string `json:"internal_address"`
		InternalPort    any    `json:"internal_port"`
	}
	if err := json.Unmarshal(text, &at); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	dir := filepath.Join(base, "centrifugo")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &Centrifugo{
		Clients: join(at.Address, at.Port), Internal: join(at.InternalAddress, at.InternalPort),
		program: program, args: []string{"--config", file}, dir: dir,
	}
	return c, c.Start(ctx)
}

func join(host string, port any) string {
	if n, ok := port.(float64); ok {
		port = strconv.Itoa(int(n))
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}

// Start starts the server again after Stop or Kill, and waits until it answers.
func (c *Centrifugo) Start(ctx context.Context) error {
	var err error
	if c.Server, err = Start(c.dir, syscall.SIGKILL, nil, c.program, c.args...); err != nil {
		return err
	}
	if err := c.Ready(ctx, c.answers); err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}

// Output is what it has written since it was started.
func (c *Centrifugo) Output() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "output"))
	return string(text), err
}

// answers asks for an answer at both of its ports.
func (c *Centrifugo) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Clients)
	if err != nil {
		return err
	}
	_ = conn.Close() // only probed
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Internal+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1000)); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/health: %s %q %w", resp.Status, text, errors.Join(err))
	}
	return nil
}
