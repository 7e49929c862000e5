# Asks for the weather by one call of a tool, and answers in the model's words.
set -eu
read -r task
question=$(sed -E 's/.*"content": ?"([^"]*)".*/\1/' <<<"$task")
user="{\"role\": \"user\", \"content\": \"$question\"}"
ask() {
  curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
    -H 'Content-Type: application/json' -d "{\"model\": \"gpt-5-mini\", \"messages\": [$1]}"
}
said=$(ask "$user" | sed -E 's/.*"message": ?(\{.*\}), "logprobs".*/\1/')
id=$(sed -E 's/.*"id": ?"(call[^"]*)".*/\1/' <<<"$said")
city=$(sed -E 's/.*\\"city\\": ?\\"([^"\\]*)\\".*/\1/' <<<"$said")
result=$(curl -sS --fail-with-body "$TOOL_API/weather?city=$city" | tr -d '"{}')
echo "{\"type\": \"tool_call\", \"id\": \"$id\", \"tool\": \"get_weather\", \"args\": {\"city\": \"$city\"}}"
echo "{\"type\": \"tool_result\", \"id\": \"$id\", \"result\": \"$result\"}"
echo "the model wants the weather of $city"
text=$(ask "$user, $said, {\"role\": \"tool\", \"tool_call_id\": \"$id\", \"content\": \"$result\"}" |
  sed -E 's/.*"content": ?"([^"]*)".*/\1/')
echo "$text" >report.md
echo "{\"type\": \"answer\", \"text\": \"$text\", \"state\": {\"city\": \"$city\"}}"
