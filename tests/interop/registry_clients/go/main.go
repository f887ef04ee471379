// What franz-go's client of a schema registry is told by one, as a line of JSON.
//
// Arguments: the registry's address, a subject with one version, a value of it in hex.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const later = `{"type":"record","name":"Order","fields":[{"name":"item","type":"string"},{"name":"count","type":"int","default":0}]}`
const other = `{"type":"record","name":"Order","fields":[{"name":"item","type":"int"}]}`

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func codeOf(err error) int {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return 0
}

func main() {
	url, subject := os.Args[1], os.Args[2]
	value, err := hex.DecodeString(os.Args[3])
	check(err)
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(url))
	check(err)
	told := map[string]any{}

	first, err := client.SchemaByVersion(ctx, subject, -1)
	check(err)
	again, err := client.CreateSchema(ctx, subject, first.Schema)
	check(err)
	told["first"], told["again"] = first.ID, again.ID

	fits, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: later})
	check(err)
	fails, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: other})
	check(err)
	told["compatible"] = []bool{fits.Is, fails.Is}
	_, err = client.CreateSchema(ctx, subject, sr.Schema{Schema: other})
	told["refused"] = codeOf(err)
	second, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: later})
	check(err)
	told["version"] = second.Version

	var header sr.ConfluentHeader
	id, payload, err := header.DecodeID(value)
	check(err)
	written, err := client.SchemaByID(ctx, id)
	check(err)
	told["text"] = written.Schema
	told["item"] = string(payload[1:])
	made, err := header.AppendEncode(nil, second.ID, nil)
	check(err)
	// A text of five bytes and the number 2.
	told["value"] = hex.EncodeToString(append(made, "\x0amilk!\x04"...))

	money := subject + "-money"
	_, err = client.CreateSchema(ctx, money, sr.Schema{Schema: `syntax = "proto3"; message Money { int64 cents = 1; }`, Type: sr.TypeProtobuf})
	check(err)
	price, err := client.CreateSchema(ctx, subject+"-price", sr.Schema{
		Schema:     `syntax = "proto3"; import "money.proto"; message Price { Money money = 1; }`,
		Type:       sr.TypeProtobuf,
		References: []sr.SchemaReference{{Name: "money.proto", Subject: money, Version: 1}},
	})
	check(err)
	told["references"] = len(price.References)
	users, err := client.SchemaReferences(ctx, money, 1)
	check(err)
	told["users"] = users[0].ID == price.ID
	_, err = client.CreateSchema(ctx, subject+"-json", sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	check(err)

	for _, set := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
		check(set.Err)
	}
	told["level"] = client.Compatibility(ctx, subject)[0].Level.String()
	_, err = client.SchemaByID(ctx, 999_999)
	told["lacking"] = codeOf(err)
	versions, err := client.DeleteSubject(ctx, subject+"-json", sr.SoftDelete)
	check(err)
	told["deleted"] = versions
	check(json.NewEncoder(os.Stdout).Encode(told))
}
