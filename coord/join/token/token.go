package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// Prefix starts the text of every token.
const Prefix = "skein-join-1."

// IDLen is how many characters, a-z and 2-7, the id of an invite has.
const IDLen = 16

// SecretLen is how many bytes the secret of an invite or of a cluster has.
const SecretLen = 32

// Limits of a token.
const (
	maxTokenBytes = 4096
	maxAddrs      = 8
)

// Errors that callers branch on. Neither changed state.
var (
	// ErrToken reports text that is no join token.
	ErrToken = errors.New("not a join token")
	// ErrExpired reports an invite whose time is over.
	ErrExpired = errors.New("invite expired")
)

// Token is an invite as it is handed to a new host.
type Token struct {
	Cluster member.ClusterID
	// Addrs are where to join, in the order of trying: host:port of the sponsor,
	// an onion address too, or "http://" and an onion address behind which any
	// host of the cluster passes joins on.
	Addrs    []string
	IDPub    ed25519.PublicKey
	WGPub    [32]byte
	RootPub  ed25519.PublicKey
	Invite   string
	Secret   Secret
	Deadline time.Time
	// Network is the cluster's IPv4 network, for checks before the invite is
	// spent; zero in a token that does not say.
	Network netip.Prefix
}

// tokenJSON is what stands, in base64url, behind the prefix.
type tokenJSON struct {
	Cluster member.ClusterID `json:"cluster"`
	Addrs   []string         `json:"addrs"`
	IDPub   []byte           `json:"id_pub"`
	WGPub   []byte           `json:"wg_pubkey"`
	RootPub []byte           `json:"root_pub"`
	Invite  string           `json:"invite"`
	Secret  []byte           `json:"secret"`
	Expires int64            `json:"expires"`
	Network string           `json:"network,omitempty"`
}

// String names the invite, without its secret.
func (t Token) String() string { return fmt.Sprintf("invite %s of cluster %s", t.Invite, t.Cluster) }

// Reveal returns the token's text, one line with the secret inside.
func (t Token) Reveal() string {
	f := tokenJSON{
		Cluster: t.Cluster, Addrs: t.Addrs, IDPub: t.IDPub, WGPub: t.WGPub[:], RootPub: t.RootPub,
		Invite: t.Invite, Secret: t.Secret.Bytes(), Expires: t.Deadline.Unix(),
	}
	if t.Network.IsValid() {
		f.Network = t.Network.String()
	}
	b, err := json.Marshal(f)
	if err != nil { // strings, bytes and a number always encode
		panic("join: encode token: " + err.Error())
	}
	return Prefix + base64.RawURLEncoding.EncodeToString(b)
}

// Parse reads a token's text. Errors never repeat it.
func Parse(text string) (Token, error) {
	text = strings.TrimSpace(text)
	body, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(text) > maxTokenBytes {
		return Token{}, ErrToken
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || strings.ContainsAny(body, "\r\n") {
		return Token{}, fmt.Errorf("%w: damaged text", ErrToken)
	}
	if wire.CheckJSON(b, 4) != nil {
		return Token{}, fmt.Errorf("%w: damaged content", ErrToken)
	}
	var f tokenJSON
	if json.Unmarshal(b, &f) != nil {
		return Token{}, fmt.Errorf("%w: damaged content", ErrToken)
	}
	if len(f.IDPub) != ed25519.PublicKeySize || len(f.RootPub) != ed25519.PublicKeySize || len(f.WGPub) != 32 ||
		len(f.Secret) != SecretLen || !Valid(f.Invite) || f.Expires <= 0 {
		return Token{}, fmt.Errorf("%w: a field is missing or of wrong length", ErrToken)
	}
	if err := CheckAddrs(f.Addrs); err != nil {
		return Token{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	t := Token{
		Cluster: f.Cluster, Addrs: f.Addrs, IDPub: f.IDPub, WGPub: [32]byte(f.WGPub), RootPub: f.RootPub,
		Invite: f.Invite, Secret: NewSecret(f.Secret), Deadline: time.Unix(f.Expires, 0),
	}
	if f.Network != "" {
		if t.Network, err = netip.ParsePrefix(f.Network); err != nil || member.CheckCIDR(t.Network) != nil {
			return Token{}, fmt.Errorf("%w: not a network of a cluster", ErrToken)
		}
	}
	return t, nil
}

// Read reads a token from the file path, or from stdin if path is "-".
// Tokens never travel in argv.
func Read(path string, stdin io.Reader) (Token, error) {
	src := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			// The path itself may be a token by mistake: do not repeat it.
			if strings.HasPrefix(path, Prefix) {
				return Token{}, errors.New("read token: give a file name, or - for standard input, not the token itself")
			}
			return Token{}, fmt.Errorf("read token: %w", err)
		}
		defer f.Close()
		src = f
	}
	b, err := io.ReadAll(io.LimitReader(src, maxTokenBytes+2))
	if err != nil {
		return Token{}, fmt.Errorf("read token: %w", err)
	}
	t, err := Parse(string(b))
	if err != nil {
		return Token{}, fmt.Errorf("read token: %w: copy it once more from the sponsor, the whole line", err)
	}
	return t, nil
}

// CheckAddrs refuses addresses that no token may name.
func CheckAddrs(addrs []string) error {
	if len(addrs) == 0 || len(addrs) > maxAddrs {
		return fmt.Errorf("%d sponsor addresses, want 1-%d", len(addrs), maxAddrs)
	}
	for _, a := range addrs {
		a, door := strings.CutPrefix(a, DoorPrefix)
		host, port, err := net.SplitHostPort(a)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" || len(host) > 255 {
			return fmt.Errorf("sponsor address %q", a)
		}
		if _, err := member.ParseOnion(host); err != nil && (door || IsOnion(a)) {
			return fmt.Errorf("sponsor address: %w", err)
		}
	}
	return nil
}

// DoorPrefix starts an address where a request asks for a way to the sponsor.
const DoorPrefix = "http://"

// IsOnion reports whether an address is reached over tor only.
func IsOnion(addr string) bool {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(addr, DoorPrefix))
	return err == nil && strings.HasSuffix(host, ".onion")
}

// NeedsTor reports whether some, and whether all, of the token's addresses are
// reached over tor.
func (t Token) NeedsTor() (some, all bool) {
	all = true
	for _, a := range t.Addrs {
		if IsOnion(a) {
			some = true
		} else {
			all = false
		}
	}
	return some, all
}

// Door is the address of an onion service behind which every host passes joins
// on, as Invites.Create wants it.
func Door(onion string, port int) string {
	return DoorPrefix + net.JoinHostPort(onion, strconv.Itoa(port))
}

// Valid reports whether s looks like the id of an invite.
func Valid(s string) bool {
	if len(s) != IDLen {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
