package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log"
	"strings"
	"time"
)

// Tokens are JSON Web Tokens, signed using HS256 with a key that lives as long as the service.
var (
	key    = random(32)
	base   = base64.RawURLEncoding
	header = base.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
)

type claims struct {
	Expires int64 `json:"exp"`
}

// issue makes a token.
func issue(expires time.Time) string {
	payload, err := json.Marshal(claims{expires.Unix()})
	if err != nil {
		log.Panic(err)
	}
	signed := header + "." + base.EncodeToString(payload)
	return signed + "." + base.EncodeToString(sign(signed))
}

// verify returns what is wrong with a token.
func verify(token string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] != header {
		return errors.New("this is no token")
	}
	signature, err := base.DecodeString(parts[2])
	if err != nil || !hmac.Equal(signature, sign(parts[0]+"."+parts[1])) {
		return errors.New("the token is not one of ours")
	}
	var claims claims
	text, err := base.DecodeString(parts[1])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return err
	}
	if !now.Before(time.Unix(claims.Expires, 0)) {
		return errors.New("the token has expired")
	}
	return nil
}

func sign(text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func random(length int) []byte {
	bytes := make([]byte, length)
	if _, err := rand.Read(bytes); err != nil {
		log.Panic(err)
	}
	return bytes
}
