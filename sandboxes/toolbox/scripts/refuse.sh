# KEY CODE WORD: records that a call was refused, with a code and the message.
begin "$1" && finish "R $2 $3"
